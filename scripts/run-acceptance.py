#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the acceptance tests, one process per test, in parallel on all processors.

  TILEWRIGHT_TEST_DEVICE=cuda scripts/run-acceptance.py build/bin/test/AcceptanceTests RESULTS

The folder RESULTS receives TEST.log and TEST.tsv of each test (with '/' as '+'); scripts/support-matrix.py reads the
latter. Tests that have passed or were skipped are not run again, so that a run that --limit interrupted can be continued.
Prints a line for each failed test and a summary, and shows progress on a terminal. The exit status is 1 if a test failed
or was not run.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time


def list_tests(binary, pattern):
    command = [binary, "--gtest_list_tests", f"--gtest_filter={pattern}"]
    listing = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if listing.returncode:
        sys.exit(f"run-acceptance: {binary} does not list its tests")
    tests, suite = [], None
    for line in listing.stdout.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            tests.append(suite + name)
        elif name.endswith("."):
            suite = name
    return tests


def outcome_of(log):
    """"passed", "skipped", "failed", or None for a test that did not end."""
    words = {"OK": "passed", "SKIPPED": "skipped", "FAILED": "failed"}
    found = re.findall(r"^\[ +(OK|SKIPPED|FAILED) +\] \S+.* \(\d+ ms\)", log, re.MULTILINE)
    return words[found[0]] if found else None


def run(options, test, end):
    """The outcome, and the log if the test did not pass."""
    files = options.results / test.replace("/", "+")
    log, table = files.with_name(files.name + ".log"), files.with_name(files.name + ".tsv")
    if log.exists() and (before := outcome_of(log.read_text())) in ("passed", "skipped"):
        return before, None
    seconds = None if end is None else end - time.monotonic()
    if seconds is not None and seconds <= 0:
        return "not run", None
    command = [options.binary, f"--gtest_filter={test}"]
    environment = dict(os.environ, TILEWRIGHT_SUPPORT_MATRIX=str(table))
    try:
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                                 timeout=seconds, errors="replace")
    except subprocess.TimeoutExpired:
        table.unlink(missing_ok=True)
        return "not run", None
    log.write_text(process.stdout)
    outcome = outcome_of(process.stdout) or f"ended with status {process.returncode}"
    if outcome in ("passed", "skipped"):
        return outcome, None
    table.unlink(missing_ok=True)
    return outcome, log


def wait_for(futures, begin):
    """Yields each future when it is done; a terminal shows the number of finished tests at least every second."""
    clear = "\r\033[K" if sys.stderr.isatty() else ""
    pending = set(futures)
    while pending:
        done, pending = concurrent.futures.wait(pending, timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
        print(end=clear, file=sys.stderr, flush=True)
        yield from done
        if clear and pending:
            count = len(futures) - len(pending)
            print(end=f"run-acceptance: {count} of {len(futures)} tests ({time.monotonic() - begin:.0f} s)",
                  file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("results", type=pathlib.Path, help="the folder for results, which is created if needed")
    parser.add_argument("--filter", default="*", help="which tests to run, in the format of --gtest_filter")
    parser.add_argument("--first", default="", metavar="REGEX", help="tests to start before the others")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="stop the run after this time")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    tests = list_tests(options.binary, options.filter)
    if not tests:
        sys.exit(f"run-acceptance: no test of {options.binary} matches {options.filter}")
    if options.first:
        tests.sort(key=lambda test: not re.search(options.first, test))
    begin = time.monotonic()
    end = begin + options.limit if options.limit else None
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tests_of = {pool.submit(run, options, test, end): test for test in tests}
        outcomes = []
        for future in wait_for(tests_of, begin):
            outcome, log = future.result()
            if log:
                print(f"{tests_of[future]}: {outcome}, see {log}", flush=True)
            outcomes.append(outcome)
    summary = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    print(f"{len(tests)} tests: {', '.join(f'{count} {outcome}' for outcome, count in summary.items())}, "
          f"{time.monotonic() - begin:.0f} s")
    return 0 if set(outcomes) <= {"passed", "skipped"} else 1


if __name__ == "__main__":
    sys.exit(main())

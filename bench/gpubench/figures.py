# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The file of figures that bench/all.py measures, and the text of documents that it gives. Needs no GPU.

The file: {"machine": {name: text}, "commit", "begun", "command", "rounds", "accuracy_rule", "rows": {name of a Row: {"sides":
{side: {"ms": median, "spread": interquartile range over the median, "rate": in the unit of the row}}, "excluded": {side: the
reason}}}}. All rows are of one commit, one machine and one day.
"""

import datetime
import hashlib
import json
import os
import re
import textwrap

from gpubench import report
from gpubench.rows import AREAS, FASTEST

SUBJECT = "tilewright"
ONE_PIECE, PAGES = "rows", "pages64"  # Tilewright's sides in bench/serving.py
OURS = (SUBJECT, ONE_PIECE, PAGES)
NAMES = {SUBJECT: "Tilewright", ONE_PIECE: "one piece", PAGES: "pages of 64", "cudnn": "cuDNN", "fa4": "FA4",
         "flex": "flex_attention", "flash": "FlashAttention-2", "torch": "cuBLAS"}
COLUMNS = 120
HOURS = 24  # within which rows may be measured
SPREAD = 0.03  # of a figure, above which the text names it
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


class Refused(Exception):
    """A file of figures, or a document, that does not fit."""


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class Figures:
    """The file, which is written after each row, so that a run that was stopped continues."""

    def __init__(self, path, data):
        self.path, self.data = path, data

    @classmethod
    def read(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls(path, json.load(file))

    @classmethod
    def begin(cls, path, **head):
        """A new file, or the one that is there, if it is of the same commit, rounds and versions, and of this day."""
        if not os.path.exists(path):
            return cls(path, {**head, "begun": now().isoformat(timespec="seconds"), "rows": {}})
        figures = cls.read(path)
        there, here = ({"commit": data["commit"], "rounds": data["rounds"], **data["machine"]} for data in (figures.data, head))
        for name in there:
            if there[name] != here.get(name, there[name]):
                raise Refused(f"{path} has figures of {name} {there[name]}, but this is {here[name]}; take another file")
        figures.data["machine"] |= head["machine"]  # a peer can have been absent before
        if now() - figures.begun > datetime.timedelta(hours=HOURS):
            raise Refused(f"{path} was begun on {figures.begun:%Y-%m-%d}; take another file")
        return figures

    @property
    def begun(self):
        return datetime.datetime.fromisoformat(self.data["begun"])

    @property
    def rows(self):
        return self.data["rows"]

    def sides(self, row):
        return self.rows.get(row.name, {}).get("sides", {})

    def add(self, row, sides, excluded):
        """Enters a row: {side: {"ms", "spread", "rate"}} and {side: the reason}, and writes the file."""
        self.rows[row.name] = {"sides": {side: {key: float(f"{value:.5g}") for key, value in summary.items()}
                                         for side, summary in sides.items()}, "excluded": excluded}
        part = f"{self.path}.part"
        with open(part, "w", encoding="utf-8") as file:
            file.write(self.text())
        os.replace(part, self.path)

    def text(self):
        """The file, with one line for each row."""
        head = json.dumps({key: value for key, value in self.data.items() if key != "rows"}, indent=1)[:-2]
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in self.rows.items())
        return f'{head},\n "rows": {{\n{lines}\n }}\n}}\n'

    def digest(self):
        """Of what is measured; charts carry it."""
        return hashlib.sha256(json.dumps(self.data, sort_keys=True).encode()).hexdigest()[:16]


def of_peers(summary):
    """The figures of a side of bench/peers.py."""
    return {"ms": summary["median_ms"], "spread": (summary["q3_ms"] - summary["q1_ms"]) / summary["median_ms"],
            "rate": summary["tflops"]}


def of_serving(summary):
    """The figures of a side of bench/serving.py."""
    return {"ms": summary["us"] / 1e3, "spread": summary["iqr"] / summary["us"], "rate": summary.get("tflops", summary["tbs"])}


def best_peer(sides, peers=None):
    """The fastest side that is not Tilewright's, or None."""
    timed = [side for side in sides if side not in OURS and (peers is None or side in peers)]
    return min(timed, key=lambda side: sides[side]["ms"], default=None)


def ratio(sides, subject=SUBJECT):
    """The speed of a side of Tilewright over that of the fastest peer, or None."""
    peer = best_peer(sides)
    return sides[peer]["ms"] / sides[subject]["ms"] if peer and subject in sides else None


def ratios(figures, rows, subject=SUBJECT):
    """{label: speed over the fastest peer} of the rows that have both."""
    found = {row.label: ratio(figures.sides(row), subject) for row in rows}
    return {label: value for label, value in found.items() if value is not None}


def cell(sides, side, row):
    return f"{sides[side]['rate']:.{2 if row.unit == 'TB/s' else 0}f}" if side in sides else "-"


def over(value):
    return "-" if value is None else f"{value:.2f}"


def mean_text(values):
    """Geometric mean and least of {label: ratio}."""
    least = min(values, key=values.get)
    return f"{report.geometric_mean(list(values.values())):.2f} in the geometric mean of {len(values)} cases, " \
           f"least {values[least]:.2f} ({least})"


def plain_table(figures, rows):
    """A line for each row: Tilewright, and the fastest peers."""
    lines = [[row.label, *(cell(sides, side, row) for side in (SUBJECT, *FASTEST)), over(ratio(sides))]
             for row in rows if (sides := figures.sides(row))]
    return report.markdown_table(["TFLOP/s", *(NAMES[side] for side in (SUBJECT, *FASTEST)), "over the faster"], lines)


def paired_table(figures, rows):
    """A line for each label: forward and backward, each beside the fastest peer that has the feature."""
    lines = []
    for label in dict.fromkeys(row.label for row in rows):
        line = [label]
        for direction in ("forward", "backward"):
            row = next((row for row in rows if (row.label, row.direction) == (label, direction)), None)
            sides = figures.sides(row) if row else {}
            peer = best_peer(sides)
            line += [cell(sides, SUBJECT, row), f"{NAMES[peer]} {cell(sides, peer, row)}" if peer else "-", over(ratio(sides))]
        if any(text != "-" for text in line[1:]):
            lines.append(line)
    return report.markdown_table(["TFLOP/s", "forward", "peer", "over it", "backward", "peer", "over it"], lines)


def decode_table(figures, rows, unit):
    """A line for each row of this unit: keys in one piece and in pages, and peers."""
    rows = [row for row in rows if row.unit == unit and figures.sides(row)]
    peers = [peer for peer in FASTEST if any(peer in figures.sides(row) for row in rows)]
    lines = []
    for row in rows:
        sides = figures.sides(row)
        microseconds = sides[PAGES]["ms"] * 1e3 if PAGES in sides else None
        lines.append([row.label, cell(sides, ONE_PIECE, row), cell(sides, PAGES, row),
                      "-" if microseconds is None else f"{microseconds:.{0 if microseconds >= 100 else 1}f}",
                      *(cell(sides, peer, row) for peer in peers), over(ratio(sides, PAGES))])
    heads = [unit, NAMES[ONE_PIECE], NAMES[PAGES], "the same, us", *(NAMES[peer] for peer in peers), "pages over the peer"]
    return report.markdown_table(heads, lines)


def notes(figures, rows):
    """A list of the sides that were not timed, by reason."""
    reasons = {}
    for row in rows:
        for side, why in figures.rows.get(row.name, {}).get("excluded", {}).items():
            why = " ".join(why.split())[:160].replace("|", "/").replace("<", "(").replace(">", ")")
            reasons.setdefault((side, why), []).append(row.label + (f" {row.direction}" if row.area in ("packed", "features") else ""))
    return [f"- {NAMES.get(side, side)} was not timed: {why} ({'; '.join(labels)})" for (side, why), labels in reasons.items()]


def spread_text(figures):
    """What the file says of the spread of its figures."""
    spreads = [(side["spread"], name, NAMES.get(key, key)) for name, row in figures.rows.items()
               for key, side in row["sides"].items()]
    wide = sorted((each for each in spreads if each[0] > SPREAD), reverse=True)
    text = f"The interquartile range is at most {SPREAD:.0%} of the median in {len(spreads) - len(wide)} of {len(spreads)} figures"
    return text + (f", and most in `{wide[0][1]}` ({wide[0][2]}, {wide[0][0]:.0%})." if wide else ".")


def area_text(figures, rows, area):
    """The table of an area, the mean of its ratios, and what was not timed."""
    rows = [row for row in rows if row.area == area]
    if area in ("forward", "backward"):
        parts, means = [plain_table(figures, rows)], ratios(figures, rows)
        text = f"Over the faster of cuDNN and FA4: {mean_text(means)}." if means else ""
    elif area == "decode":
        parts = [decode_table(figures, rows, unit) for unit in dict.fromkeys(row.unit for row in rows if figures.sides(row))]
        means = ratios(figures, [row for row in rows if "cudnn" in figures.sides(row)], PAGES)
        pieces = ratios(figures, [row for row in rows if "cudnn" in figures.sides(row)], ONE_PIECE)
        text = f"Over cuDNN, where it has the case: pages of 64 {mean_text(means)}; one piece {mean_text(pieces)}." \
            if means and pieces else ""
    else:
        parts, texts = [paired_table(figures, rows)], []
        for direction in ("forward", "backward") if area == "packed" else ():
            means = ratios(figures, [row for row in rows if row.direction == direction])
            texts += [f"{direction} {mean_text(means)}"] if means else []
        text = f"Over FA4: {'; '.join(texts)}." if texts else ""
    if text:
        parts.append(textwrap.fill(text, COLUMNS))
    if listed := notes(figures, rows):
        parts.append("\n".join(textwrap.fill(line, COLUMNS, subsequent_indent="  ") for line in listed))
    return "\n\n".join(parts)


def machine_text(figures):
    """What was measured, where, when, and of which commit."""
    machine = figures.data["machine"]
    if "cudnn" in machine:  # PyTorch's number of 9.19.0 is 91900
        number = int(machine["cudnn"])
        machine = {**machine, "cudnn": f"{number // 10000}.{number // 100 % 100}.{number % 100}"}
    versions = ", ".join(f"{name} {machine[key]}" for name, key in (
        ("driver", "driver"), ("PyTorch", "torch"), ("CUDA", "cuda"), ("cuDNN", "cudnn"), ("FlashAttention-4", "fa4")) if machine.get(key))
    return textwrap.fill(
        f"One {machine['gpu']} ({versions}), {figures.begun:%Y-%m-%d}, commit {figures.data['commit']}, for all rows: medians of "
        f"{figures.data['rounds']} rounds, in each of which all sides of a row are called in turn. {spread_text(figures)} All "
        "figures are in [the file](figures/h200.json).", COLUMNS, break_long_words=False, break_on_hyphens=False)


def summary_text(figures, rows):
    """The sentences of README.md."""
    by_area = {area: [row for row in rows if row.area == area] for area in AREAS}

    def mean(area, subject=SUBJECT, direction=None, peer=None, unit=None):
        chosen = [row for row in by_area[area] if (direction is None or row.direction == direction)
                  and (peer is None or peer in figures.sides(row)) and unit in (None, row.unit)]
        found = ratios(figures, chosen, subject)
        return f"{report.geometric_mean(list(found.values())):.2f}x" if found else "-"

    count = len(ratios(figures, by_area["forward"]))
    return textwrap.fill(
        f"On one {figures.data['machine']['gpu']}, in bf16, the forward is {mean('forward')} as fast as the faster of cuDNN and "
        f"FlashAttention-4, the backward {mean('backward')} (geometric means of {count} cases each: heads D = 64, 128, 256 wide, "
        "sequences of S = 1,024 to 16,384 rows, full and causal). Packed sequences of D 128 are "
        f"{mean('packed', direction='forward')} and {mean('packed', direction='backward')} as fast as FlashAttention-4. Decoding, "
        f"of B sequences with S keys each, is {mean('decode', PAGES, peer='cudnn')} as fast as cuDNN although keys are in pages, and "
        f"{mean('decode', ONE_PIECE, peer='cudnn')} where they are in one piece, as cuDNN's. Chunked "
        f"prefill over pages is {mean('decode', PAGES, peer='fa4', unit='TFLOP/s')} as fast as FlashAttention-4. Measured "
        f"{figures.begun:%Y-%m-%d}; [all figures](docs/performance.md#results), and the command that measures them.",
        COLUMNS, break_long_words=False, break_on_hyphens=False)


def fill(document, figures, rows):
    """The document with the text between `<!-- figures: NAME -->` and `<!-- end of figures -->` replaced: NAME is machine, summary
    or an area."""
    texts = {"machine": lambda: machine_text(figures), "summary": lambda: summary_text(figures, rows)}
    texts |= {area: lambda area=area: area_text(figures, rows, area) for area in AREAS}

    def replace(match):
        if match[2] not in texts:
            raise Refused(f"expected one of {', '.join(texts)} behind 'figures:' but got '{match[2]}'")
        return f"{match[1]}{texts[match[2]]()}\n{match[3]}"

    return MARKED.sub(replace, document)

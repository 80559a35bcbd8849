# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tilewright doctor: whether attention can run on this machine, and what is missing; python -m tilewright bench:
how fast it is here, beside what is installed; python -m tilewright scale: how fast it is predicted to be on many GPUs."""

import sys

COMMANDS = {"doctor": "whether attention can run on this machine, and what is missing",
            "bench": "the speed of attention on this machine's GPU, beside what is installed",
            "scale": "the predicted efficiency of attention over sequences on many GPUs; needs none"}


def main(arguments):
    command = arguments[0] if arguments else ""
    if command == "doctor":
        from tilewright import doctor
        return doctor.main(arguments[1:])
    if command == "bench":
        from tilewright import bench
        return bench.main(arguments[1:])
    if command == "scale":
        from tilewright import scale
        return scale.main(arguments[1:])
    usage = "usage: python -m tilewright {doctor,bench,scale} [--help]\n\n" + "\n".join(
        f"  {name:8}{text}" for name, text in COMMANDS.items())
    if command in ("-h", "--help"):
        print(usage)
        return 0
    print(usage + f"\n\ntilewright: error: expected doctor, bench or scale, but got '{command}'", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

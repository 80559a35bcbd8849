# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The charts of README.md and docs/performance.md, drawn by matplotlib from the file of figures."""

from gpubench.figures import NAMES, ONE_PIECE, PAGES, SUBJECT
from gpubench.rows import FASTEST, LENGTHS, MASKS

COLORS = {SUBJECT: "#1b6ca8", ONE_PIECE: "#7fb2d9", PAGES: "#1b6ca8", "cudnn": "#66a182", "fa4": "#edae49"}
LABELS = {**NAMES, ONE_PIECE: "Tilewright, one piece", PAGES: "Tilewright, pages of 64", "fa4": "FlashAttention-4"}
DIMS = [64, 128, 256]
SUMMARY_LENGTH, SUMMARY_DECODES = 4096, ["B1 S16k", "B16 S8k", "B64 S8k"]


def _bars(axes, groups, sides, names):
    """Bars side by side: a group for each {side: rate}, of which each side has its color."""
    width = 0.8 / len(sides)
    for index, side in enumerate(sides):
        places = [place + (index - (len(sides) - 1) / 2) * width for place, rates in enumerate(groups) if side in rates]
        axes.bar(places, [rates[side] for rates in groups if side in rates], width, color=COLORS[side], label=LABELS[side])
    axes.set_xticks(range(len(groups)), names)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _rates(figures, row):
    return {side: summary["rate"] for side, summary in figures.sides(row).items()}


def plain(pyplot, figures, rows, direction):
    """TFLOP/s by length, with a panel for each width and mask."""
    sides = (SUBJECT, *FASTEST)
    figure, panels = pyplot.subplots(2, 3, figsize=(9.6, 4.8), sharey=True, layout="constrained")
    for line, mask in zip(panels, MASKS):
        for axes, dim in zip(line, DIMS):
            chosen = [row for row in rows if row.area == direction and (row.case.dim, row.case.causal) == (dim, mask)]
            _bars(axes, [_rates(figures, row) for row in chosen], sides, [f"{length:,}" for length in LENGTHS])
            axes.set_title(f"D {dim}, {MASKS[mask]}", fontsize=10)
        line[0].set_ylabel("TFLOP/s")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=len(sides), frameon=False)
    figure.supxlabel(f"{direction} by length; {figures.data['machine']['gpu']}, bf16, 16,384 tokens, {figures.data['commit']}",
                     fontsize=9)
    return figure


def decode(pyplot, figures, rows):
    """TB/s of keys and values, for the cases that cuDNN has."""
    sides = (PAGES, ONE_PIECE, "cudnn")
    chosen = [row for row in rows if row.area == "decode" and "cudnn" in figures.sides(row)]
    figure, axes = pyplot.subplots(figsize=(9.6, 3.4), layout="constrained")
    _bars(axes, [_rates(figures, row) for row in chosen], sides, [row.label.replace(" ", "\n", 1) for row in chosen])
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylabel("TB/s of keys and values")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(sides), frameon=False)
    figure.supxlabel(f"decoding; {figures.data['machine']['gpu']}, bf16, 64 heads on 8 of 128 columns if not said, "
                     f"{figures.data['commit']}", fontsize=9)
    return figure


def summary(pyplot, figures, rows):
    """The chart of README.md: forward, backward and decoding, each in a panel."""
    figure, panels = pyplot.subplots(1, 3, figsize=(9.6, 3.0), layout="constrained")
    for axes, direction in zip(panels, ("forward", "backward")):
        chosen = [row for dim in DIMS for mask in MASKS for row in rows if row.area == direction
                  and (row.case.dim, row.case.causal, row.case.seq) == (dim, mask, SUMMARY_LENGTH)]
        _bars(axes, [_rates(figures, row) for row in chosen], (SUBJECT, *FASTEST),
              [f"D {row.case.dim}\n{MASKS[row.case.causal]}" for row in chosen])
        axes.set_title(f"{direction}, S {SUMMARY_LENGTH:,}: TFLOP/s", fontsize=10)
    chosen = [row for name in SUMMARY_DECODES for row in rows if row.area == "decode" and row.label == name]
    _bars(panels[2], [{SUBJECT: rates[PAGES], "cudnn": rates["cudnn"]} for rates in (_rates(figures, row) for row in chosen)],
          (SUBJECT, "cudnn"), [row.label.replace(" ", "\n") for row in chosen])
    panels[2].set_title("decoding: TB/s of keys and values", fontsize=10)
    for axes in panels:
        axes.tick_params(axis="x", labelsize=8)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=1 + len(FASTEST), frameon=False)
    figure.supxlabel(f"{figures.data['machine']['gpu']}, bf16; decoding over pages of 64, cuDNN in one piece; "
                     f"{figures.data['commit']}", fontsize=9)
    return figure


def draw(figures, rows, path_of):
    """Writes forward, backward, decode and summary to `path_of` of these names. Raises ImportError without matplotlib."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tilewright", "font.size": 9,
                                "font.family": ["DejaVu Sans", "sans-serif"]})
    for name, figure in (("forward", plain(pyplot, figures, rows, "forward")), ("backward", plain(pyplot, figures, rows, "backward")),
                         ("decode", decode(pyplot, figures, rows)), ("summary", summary(pyplot, figures, rows))):
        figure.savefig(path_of(name), format="svg", facecolor="white",
                       metadata={"Date": None, "Creator": None, "Description": f"figures {figures.digest()}"})
        pyplot.close(figure)

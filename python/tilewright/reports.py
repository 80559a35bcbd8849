# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statistics, tables and plots of timings. Does not need PyTorch."""

import html
import math
import statistics

COLORS = ["#1b6ca8", "#d1495b", "#66a182", "#edae49", "#7a5195", "#2e4057", "#8d6b94", "#a0522d"]


def summarize(milliseconds):
    """Median and quartiles of a list of at least one time."""
    ordered = sorted(milliseconds)
    low, high = (ordered[0], ordered[-1]) if len(ordered) < 2 else statistics.quantiles(ordered, n=4)[::2]
    return {"median_ms": statistics.median(ordered), "q1_ms": low, "q3_ms": high, "rounds": len(ordered)}


def tflops(flops, milliseconds):
    return flops / milliseconds / 1e9


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


def markdown_table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def speed_row(name, times, sides, subject, digits=0):
    """Cells of a table: the case, then for each side its TFLOP/s; for the subject with the interquartile range, for others
    with the speed of the subject over it. `times` is {side: summary}, with "tflops", of
    which `digits` are shown behind the point."""
    row = [name]
    for side in sides:
        if side not in times:
            row.append("-")
            continue
        text = f"{times[side]['tflops']:.{digits}f}"
        if side == subject:
            spread = (times[side]["q3_ms"] - times[side]["q1_ms"]) / times[side]["median_ms"]
            text += f" (IQR {spread:.1%})"
        elif subject in times:
            text += f" ({times[side]['median_ms'] / times[subject]['median_ms']:.2f})"
        row.append(text)
    return row


def ratios(results, subject):
    """{peer: {case: speed of the subject relative to the peer}} from {case: {side: {"median_ms"}}}."""
    table = {}
    for case, sides in results.items():
        if subject not in sides:
            continue
        for peer, side in sides.items():
            if peer != subject:
                table.setdefault(peer, {})[case] = side["median_ms"] / sides[subject]["median_ms"]
    return table


def summary_rows(table):
    """One row for each peer: number of cases, geometric mean, and the smallest ratio with its case."""
    rows = []
    for peer, by_case in table.items():
        worst = min(by_case, key=by_case.get)
        rows.append([peer, len(by_case), f"{geometric_mean(list(by_case.values())):.3f}", f"{by_case[worst]:.3f}", worst])
    return rows


def best_peers(results, peers):
    """{case: the fastest of these peers that was timed in the case}."""
    timed = {case: [(sides[peer]["median_ms"], peer) for peer in peers if peer in sides]
             for case, sides in results.items()}
    return {case: min(times)[1] for case, times in timed.items() if times}


def ratios_to_best(results, subject, best):
    """{case: speed of the subject relative to the case's peer in `best`}."""
    return {case: results[case][peer]["median_ms"] / results[case][subject]["median_ms"] for case, peer in best.items()
            if subject in results[case]}


def _nice_top(value):
    step = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(step * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10) if step * factor >= value)


def short_length(length):
    """A number of rows, as 32k or 1M where it is a multiple of these."""
    for size, unit in ((1 << 20, "M"), (1 << 10, "k")):
        if length and length % size == 0:
            return f"{length // size}{unit}"
    return str(length)


def svg_plot(groups, title, name_of=str):
    """A plot with one panel per group, two panels in a row, and a legend below; groups are {group: {side: [(sequence
    length, TFLOP/s)]}}. `name_of` gives the text for a length."""
    width, height, columns = 430, 260, 2
    left, right, top, bottom = 52, 14, 34, 34
    sides = list(dict.fromkeys(side for lines in groups.values() for side in lines))
    rows = -(-len(groups) // columns)
    total_width, total_height = columns * width, 40 + rows * height + 24 * (-(-len(sides) // 4)) + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{total_width}" height="{total_height}" fill="white"/>',
           f'<text x="{total_width / 2}" y="24" text-anchor="middle" font-size="15">{html.escape(title)}</text>']
    for index, (group, lines) in enumerate(groups.items()):
        x0, y0 = (index % columns) * width + left, 40 + (index // columns) * height + top
        inner_width, inner_height = width - left - right, height - top - bottom
        points = [point for line in lines.values() for point in line]
        lengths = sorted({length for length, _ in points})
        best = _nice_top(max((speed for _, speed in points), default=1))

        def x_of(length):
            place = lengths.index(length) / max(1, len(lengths) - 1) if len(lengths) > 1 else 0.5
            return x0 + inner_width * place

        def y_of(speed):
            return y0 + inner_height * (1 - speed / best)

        out.append(f'<text x="{x0 + inner_width / 2}" y="{y0 - 12}" text-anchor="middle">{html.escape(group)}</text>')
        for tick in range(5):
            speed = best * tick / 4
            out.append(f'<line x1="{x0}" y1="{y_of(speed):.1f}" x2="{x0 + inner_width}" y2="{y_of(speed):.1f}" '
                       'stroke="#dddddd"/>')
            out.append(f'<text x="{x0 - 6}" y="{y_of(speed) + 4:.1f}" text-anchor="end">{speed:g}</text>')
        for length in lengths:
            out.append(f'<text x="{x_of(length):.1f}" y="{y0 + inner_height + 18}" text-anchor="middle">{name_of(length)}</text>')
        for side, line in lines.items():
            color = COLORS[sides.index(side) % len(COLORS)]
            path = " ".join(f"{x_of(length):.1f},{y_of(speed):.1f}" for length, speed in sorted(line))
            out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
            out += [f'<circle cx="{x_of(length):.1f}" cy="{y_of(speed):.1f}" r="3" fill="{color}"/>'
                    for length, speed in line]
    for index, side in enumerate(sides):
        x, y = 30 + (index % 4) * (total_width - 40) / 4, 40 + rows * height + 16 + 24 * (index // 4)
        out.append(f'<rect x="{x:.1f}" y="{y - 10}" width="14" height="10" fill="{COLORS[index % len(COLORS)]}"/>')
        out.append(f'<text x="{x + 20:.1f}" y="{y}">{html.escape(side)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def svg_curves(curves, title, x_name, y_name):
    """A plot of {name: [values]} over the index of the values, in one panel. Later curves are dashed, so that
    overlapping curves are visible."""
    width, height, left, right, top, bottom = 760, 420, 60, 16, 44, 66
    inner_width, inner_height = width - left - right, height - top - bottom
    count = max(len(values) for values in curves.values())
    best = _nice_top(max(max(values) for values in curves.values()))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{width / 2}" y="24" text-anchor="middle" font-size="15">{html.escape(title)}</text>',
           f'<text x="{left}" y="{top - 8}">{html.escape(y_name)}</text>',
           f'<text x="{left + inner_width / 2}" y="{top + inner_height + 34}" text-anchor="middle">{html.escape(x_name)}</text>']
    for tick in range(5):
        y, x = top + inner_height * (1 - tick / 4), left + inner_width * tick / 4
        out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + inner_width}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{best * tick / 4:g}</text>')
        out.append(f'<text x="{x:.1f}" y="{top + inner_height + 18}" text-anchor="middle">{count * tick // 4}</text>')
    for index, (name, values) in enumerate(curves.items()):
        color = COLORS[index % len(COLORS)]
        path = " ".join(f"{left + inner_width * at / max(1, count - 1):.1f},{top + inner_height * (1 - value / best):.1f}"
                        for at, value in enumerate(values))
        dashes = ' stroke-dasharray="6 6"' if index else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')
        x, y = left + index * 180, height - 12
        out.append(f'<rect x="{x}" y="{y - 10}" width="14" height="10" fill="{color}"/>')
        out.append(f'<text x="{x + 20}" y="{y}">{html.escape(name)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"

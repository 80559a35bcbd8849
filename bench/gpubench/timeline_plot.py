# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An SVG of a few microseconds of one thread block of a trace."""

import html

# By kind, as in TimelineFormat.h; "work" is the time between events, "in flight" a product after its issue.
COLORS = {"wait": "#d9d9d9", "copy": "#66a182", "product": "#1b6ca8", "store": "#7a5195", "shared": "#edae49",
           "work": "#f2cfa4", "in flight": "#9fc5e8"}
WIDTH, LEFT, ROW, TOP = 1180, 96, 22, 44


def read_block(trace, block=0):
    """The tracks and slices of the block with this index in the trace: {track: name}, and a list of (track, kind, name,
    begin, duration) in microseconds. Iterations of loops are omitted."""
    processes = sorted({event["pid"] for event in trace["traceEvents"] if event["ph"] == "X"})
    if block >= len(processes):
        raise ValueError(f"the trace has {len(processes)} blocks, but got block {block}")
    tracks, slices, began = {}, [], {}
    for event in trace["traceEvents"]:
        if event["pid"] != processes[block]:
            continue
        if event["ph"] == "M" and event["name"] == "thread_name":
            tracks[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X" and event["cat"] != "loop":
            slices.append((event["tid"], event["cat"], event["name"], event["ts"], event["dur"]))
        elif event["ph"] == "b":
            began[event["id"]] = event["ts"]
        elif event["ph"] == "e" and event["id"] in began:
            since = began.pop(event["id"])
            slices.append((event["tid"], "in flight", event["name"], since, event["ts"] - since))
    return {tid: name for tid, name in tracks.items() if any(tid == track for track, *_ in slices)}, slices


def svg_timeline(trace, title, begin=0.0, length=10.0, block=0):
    """An SVG of `length` microseconds from `begin`, counted from the block's first event."""
    tracks, slices = read_block(trace, block)
    origin = min(since for *_, since, _ in slices) + begin
    # Products in flight have separate rows, below the warpgroup that issued them.
    rows = []
    for track, name in sorted(tracks.items()):
        rows.append((track, False, name))
        if any(each == track and kind == "in flight" for each, kind, *_ in slices):
            rows.append((track, True, "  in flight"))
    height = TOP + len(rows) * (ROW + 6) + 62
    scale = (WIDTH - LEFT - 16) / length
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
           'font-size="11">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="14">{html.escape(title)}</text>']
    for index, (track, flies, name) in enumerate(rows):
        y = TOP + index * (ROW + 6)
        out.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{html.escape(name)}</text>')
        number = 0
        for each, kind, what, since, duration in sorted(slices, key=lambda item: item[3]):
            left = max(since - origin, 0.0)
            right = min(since - origin + duration, length)
            if each != track or (kind == "in flight") != flies or right <= left:
                continue
            x, width = LEFT + left * scale, (right - left) * scale
            # Products overlap, so every second one is drawn lower.
            top, tall = (y + number % 2 * ROW / 2, ROW / 2) if flies else (y, ROW)
            number += 1
            out.append(f'<rect x="{x:.1f}" y="{top:g}" width="{max(width, 0.5):.1f}" height="{tall:g}" '
                       f'fill="{COLORS.get(kind, "#ffffff")}" stroke="#ffffff" stroke-width="0.4">'
                       f'<title>{html.escape(what)} {1e3 * duration:.0f} ns</title></rect>')
            label = what if kind in ("wait", "copy", "in flight", "store") else "softmax, addresses" if kind == "work" else ""
            if label and width > 6.2 * len(label):
                out.append(f'<text x="{x + 3:.1f}" y="{top + (9 if flies else 15):g}" font-size="10">'
                           f'{html.escape(label)}</text>')
    y = TOP + len(rows) * (ROW + 6) + 12
    for tick in range(int(length) + 1):
        x = LEFT + tick * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{y - 10}" stroke="#999999" stroke-width="0.4"/>')
        out.append(f'<text x="{x:.1f}" y="{y + 4}" text-anchor="middle">{begin + tick:g} us</text>')
    for index, (kind, color) in enumerate(COLORS.items()):
        x = LEFT + index * 130
        out.append(f'<rect x="{x}" y="{y + 16}" width="14" height="12" fill="{color}" stroke="#666666"/>')
        out.append(f'<text x="{x + 20}" y="{y + 26}">{html.escape(kind)}</text>')
    return "\n".join([*out, "</svg>", ""])

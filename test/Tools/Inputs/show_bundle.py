# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Prints the contents of a bundle, parsed independently after the description of the file in runtime/Bundle.h.

import json
import struct
import sys

data = open(sys.argv[1], "rb").read()
assert data[:8] == b"TWBUNDLE"
size, = struct.unpack_from("<Q", data, 16)
assert size == len(data), (size, len(data))
manifest_size, num_blobs = struct.unpack_from("<QI", data, 32)
start = 48 + 8 * num_blobs
manifest = json.loads(data[start : start + manifest_size])


def value(literal):
    return literal[1] if isinstance(literal, list) else str(literal)


def params(owner):
    return " ".join(f"{name}={value(literal)}" for name, literal in sorted(owner["params"].items()))


def arguments(owner):
    texts = []
    for argument in owner["arguments"]:
        text = f"{argument['name']}:{argument['type']}"
        if argument["kind"] == "view":
            text += "[" + ",".join("?" if e is None else str(e) for e in argument["extents"]) + "]"
        text += "?" if argument.get("optional") else "!" if argument.get("capture") else ""
        text += ":written" if argument.get("written") else ""
        texts.append(text)
    return " ".join(texts)


def short(expression):
    if isinstance(expression, list) and expression[0] == "name":
        return expression[1]
    if isinstance(expression, list) and expression[0] == "dim":
        return f"dim({expression[1]}, {expression[2]})"
    return expression


def elements(owner):
    for rule in owner["elements"]:
        operands = [rule[key] for key in ("argument", "low", "high", "counts", "size") if key in rule]
        print("elements", rule["rule"], json.dumps([short(operand) for operand in operands]))


def sums():
    for kernel in manifest["kernels"]:
        order = {True: "any", False: "defined"}[kernel["adds_in_any_order"]]
        defaults = [f"{argument['name']}={json.dumps(argument['default'])}" for argument in kernel["arguments"]
                    if "default" in argument]
        print(f"{kernel['entry']}: sums in {' '.join(kernel.get('sums', [])) or 'none'}, order {order}, defaults "
              + (" ".join(defaults) or "none"))


if sys.argv[2:] == ["sums"]:  # nothing else
    sys.exit(sums())
print("source", manifest["source"])
for kernel in manifest["kernels"]:
    print(f"kernel {kernel['name']}: {params(kernel)}")
    if kernel["entry"] != kernel["name"]:
        needs = [f"{need['argument']}:{need['alignment']}" for need in kernel["requires"]]
        print("entry", kernel["entry"], "needs", " ".join(needs))
    print("arguments", arguments(kernel))
    grid, = kernel["grid"]
    print("grid", json.dumps(grid), "warps", kernel["block"][0] // 32, "shared", kernel["shared_bytes"],
          *(["and static", kernel["static_shared_bytes"]] if "static_shared_bytes" in kernel else []))
    codes = []
    for code in kernel["code"]:
        version = code.get("ptx_version")
        codes.append(f"{code['kind']}:{code['arch']}" + (f":{version // 10}.{version % 10}" if version else ""))
    print("code", " ".join(codes))
    for tensor_map in kernel["tensor_maps"]:
        box = "x".join(map(str, tensor_map["box"]))
        print("map", f"{tensor_map['argument']}:{box}", *(["stored"] if tensor_map.get("stored") else []))
    if "timeline" in kernel:
        timeline = kernel["timeline"]
        print("timeline", timeline["words"], "words for each warpgroup of", ", ".join(timeline["roles"]))
        for event in timeline["events"]:
            marks = ["pending " + str(event["pending"])] if "pending" in event else []
            marks += ["commits"] if event.get("commits") else []
            print("event", event["kind"] + ":", event["name"], *([f"({', '.join(marks)})"] if marks else []),
                  "at", event.get("line"))
    for condition in kernel["when"]:
        print("when", json.dumps(condition))
    elements(kernel)
for program in manifest["programs"]:
    print(f"program {program['name']}: {params(program)}")
    print("arguments", arguments(program))
    elements(program)
    for condition in program["when"]:
        print("when", json.dumps(condition))
    for form in program["forms"]:
        print(f"form for {form['target']}: {params(form)}")
        for condition in form["when"]:
            print("when", json.dumps(condition))
        for workspace in form["workspaces"]:
            extents = json.dumps([short(e) for e in workspace["extents"]])
            print(f"workspace {workspace['name']}:{workspace['type']}", extents)
        for launch in form["launches"]:
            print("launch", launch["kernels"], " ".join(launch["arguments"]))

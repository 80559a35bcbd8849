# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A lock on the code of shipped kernels. Compares digests of mapped kernels, and the registers and spilled bytes that
# ptxas reports, with a table (digests.txt), and prints what differs. A change that must not affect the code leaves the
# table as it is; one that does writes it again, and its diff shows which kernels changed.
#
#   digests.py                      compares the table; in the full tier all registers, else those of marked bindings
#   digests.py --write              writes the table again; `make digests` does this
#   digests.py --store FOLDER       also stores the normalized text of each kernel
#   digests.py --against FOLDER     also prints the difference from the stored text for each digest that differs
#   digests.py --show MAPPED.mlir   prints the normalized texts of a file that `tilewrightc --emit=tgpu` wrote
#
# Further options: --match TEXT (only bindings that contain it), --jobs N, --table FILE, --kernels FOLDER. Tools are those
# of PATH, or else of build/bin.
#
# The digest of a kernel is that of its normalized text with the functions that it calls. It stays the same if
#   - values, arguments, grid positions, functions, captures or the kernel itself are renamed;
#   - arguments are reordered, or some that nothing uses come or go;
#   - scalar constants are defined elsewhere, since every use is an immediate operand of the code;
#   - parameters change, of which only the attributes `bindings` and `blocks` remain; the attribute `strategy`; notes for
#     authors (`tgpu.notes`, `tgpu.no_roles`); or locations.
# Any other difference changes it: an operation or its place, a constant, type, layout or attribute, the schedule, the
# extents of the grid, a constraint. The digest of a program covers its arguments, which callers know by name, its
# constraints and workspaces, and its launches: their order, their conditions, and which array each argument gets.

import argparse
import concurrent.futures
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(FOLDER, "..", "..", ".."))
IS_FULL = os.environ.get("TILEWRIGHT_TEST_TIER") == "full"
PROGRAM = "program"
VALUE = re.compile(r"%([\w$.-]+)")
SYMBOL = re.compile(r"@([\w$.-]+)")
CONSTANT = re.compile(r"\s*%([\w$.-]+) = arith\.constant (?!dense)([^<]+)$")
DEFINED = re.compile(r"\s*%([\w$.-]+)(?::\d+)? = ")
LAUNCH = re.compile(r"\s*tile\.launch @")
LOCATION = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")
WORD = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")
ENTRY = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", re.S
)


def split(text):
    """The parts of a list, at commas outside of brackets and quotes. Comparisons have spaces around them, brackets do
    not have one before them."""
    parts, depth, is_quoted, begin = [], 0, False, 0
    for at, char in enumerate(text):
        if char == '"':
            is_quoted = not is_quoted
        elif is_quoted or char in "<>" and text[at - 1] in " -":
            continue
        elif char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return parts + [last] if last else parts


def split_brackets(text, begin):
    """What the bracket at `begin` encloses, and the rest of the text behind it."""
    depth, is_quoted = 0, False
    for at in range(begin, len(text)):
        char = text[at]
        if char == '"':
            is_quoted = not is_quoted
        elif not is_quoted and char in "([{":
            depth += 1
        elif not is_quoted and char in ")]}":
            depth -= 1
            if not depth:
                return text[begin + 1 : at], text[at + 1 :]
    raise ValueError(f"no end of {text[begin : begin + 80]}")


def get_attributes(text):
    """The attributes of a kernel or a program, without those that only record parameters. Of the chosen blocks, the
    lengths for which a bundle has further variants remain."""
    if not text.lstrip().startswith("attributes {"):
        return ""
    kept = []
    for attribute in split(split_brackets(text, text.index("{"))[0]):
        if attribute.startswith("blocks = "):
            kept += re.findall(r"shorter = \[[^]]*\]", attribute)
        elif not attribute.startswith(("bindings = ", "strategy = ", "tgpu.notes = ", "tgpu.no_roles")):
            kept.append(attribute)
    return ", ".join(kept)


class Header:
    """Constraints, arguments, grid and attributes of a kernel or a program."""

    def __init__(self, lines):
        text = " ".join(line.strip() for line in lines)
        title = re.match(r"[\w.]+ @[\w$.-]+", text)
        self.title, rest = text[: title.end()].split(" ")[0], text[title.end() :]
        self.properties, self.constraints, self.grid = "", "", ""
        found = re.match(r"([^(]*?)\s*(?:require)?\(", rest)
        self.properties = found[1].strip()
        if rest[: found.end()].endswith("require("):
            self.constraints, rest = split_brackets(rest, found.end() - 1)
        inside, rest = split_brackets(rest, rest.index("("))
        self.arguments = [VALUE.match(part)[1] for part in split(inside)]
        self.types = [part.split(":", 1)[1].strip() for part in split(inside)]
        if rest.lstrip().startswith("grid("):
            self.grid, rest = split_brackets(rest, rest.index("("))
        self.attributes = get_attributes(rest)


class Names:
    """New names of values, by their first occurrence. A name that a sibling scope uses again stays the same."""

    def __init__(self, fixed=()):
        self.values, self.arguments, self.symbols = dict(fixed), {}, {}
        self.constants, self.known_arguments = {}, set()

    def get(self, name):
        if name in self.constants:
            return self.constants[name]
        if name in self.known_arguments:
            return "%" + self.arguments.setdefault(name, f"a{len(self.arguments)}")
        return "%" + self.values.setdefault(name, f"v{len(self.values)}")

    def rename(self, line):
        """A line of a body; None if it defines a scalar constant."""
        if constant := CONSTANT.match(line):
            self.constants[constant[1]] = f"({constant[2].strip()})"
            return None
        if defined := DEFINED.match(line):
            self.constants.pop(defined[1], None)
        return VALUE.sub(lambda found: self.get(found[1]), self.rename_symbols(line))

    def rename_symbols(self, line):
        return SYMBOL.sub(lambda found: "@" + self.symbols.setdefault(found[1], f"f{len(self.symbols)}"), line)

    def rename_expression(self, text):
        """An expression, in which arguments have no %."""
        return WORD.sub(lambda found: self.get(found[0]) if found[0] in self.known_arguments else found[0], text)


class Module:
    """A mapped module: the definitions of its symbols, as lines."""

    def __init__(self, text):
        lines = [LOCATION.sub("", line.rstrip()) for line in text.split("\n")]
        lines = [line for line in lines if line.strip() and not line.startswith("#loc")]
        if not lines or not lines[0].startswith("module") or lines[-1] != "}":
            raise ValueError("expected a module without aliases of types and attributes")
        self.items = {}
        for line in lines[1:-1]:
            if re.match(r"  [^\s}]", line):
                name = SYMBOL.search(line)[1]
                self.items[name] = []
            self.items[name].append(line)

    def is_a(self, name, kind):
        return self.items[name][0].startswith(f"  {kind} ")

    def normalize_kernel(self, name):
        """The normalized text, and the arguments that the kernel uses, in the order of the text."""
        lines = self.items[name]
        begin = next(at for at, line in enumerate(lines) if line.endswith("{")) + 1
        header = Header(lines[:begin])
        grid = [(VALUE.match(part)[1], part.split("=", 1)[1].strip()) for part in split(header.grid)]
        names = Names((position, f"g{at}") for at, (position, _) in enumerate(grid))
        names.known_arguments = set(header.arguments)
        names.symbols[name] = "kernel"
        body = [renamed for line in lines[begin:] if (renamed := names.rename(line)) is not None]
        extents = ", ".join(names.rename_expression(extent) for _, extent in grid)
        constraints = [names.rename_expression(each) for each in split(header.constraints)]
        types = dict(zip(header.arguments, header.types))
        text = [f"{header.title} {header.properties}", f"attributes {names.rename_symbols(header.attributes)}"]
        text += [f"argument %{new}: {types[old]}" for old, new in names.arguments.items()]
        text += [f"grid {extents}"] + [f"require {each}" for each in constraints] + body
        done = {name}
        while missing := [symbol for symbol in names.symbols if symbol not in done]:
            done.add(missing[0])
            text += self.normalize_function(missing[0], names)
        return text, list(names.arguments)

    def normalize_function(self, name, names):
        if name not in self.items:
            raise ValueError(f"nothing defines @{name}")
        own = Names()
        own.symbols = names.symbols
        return [renamed for line in self.items[name] if (renamed := own.rename(line)) is not None]

    def normalize(self):
        """Yields names and normalized texts: the program, if there is one, and the kernels as it launches them."""
        programs = [name for name in self.items if self.is_a(name, "tile.program")]
        kernels = [name for name in self.items if self.is_a(name, "tgpu.kernel")]
        launched = [SYMBOL.search(line)[1] for name in programs for line in self.items[name] if LAUNCH.match(line)]
        kernels.sort(key=lambda name: launched.index(name) if name in launched else len(launched))
        texts = {name: self.normalize_kernel(name) for name in kernels}
        for name in programs:
            yield PROGRAM, self.normalize_program(name, kernels, {each: used for each, (_, used) in texts.items()})
        for name in kernels:
            yield name, texts[name][0]

    def normalize_program(self, name, kernels, used):
        lines = self.items[name]
        begin = next(at for at, line in enumerate(lines) if line.endswith("{")) + 1
        header = Header(lines[:begin])
        names = Names((argument, argument) for argument in header.arguments)
        text = [f"{header.title} {header.properties}", f"attributes {header.attributes}"]
        text += [f"argument %{argument}: {type_}" for argument, type_ in zip(header.arguments, header.types)]
        text += [f"require {each}" for each in split(header.constraints)]
        for line in lines[begin:]:
            if not LAUNCH.match(line):
                if (renamed := names.rename(line)) is not None:
                    text.append(renamed)
                continue
            kernel = SYMBOL.search(line)[1]
            operands, rest = split_brackets(line, line.index("("))
            condition = ""
            if rest.lstrip().startswith("when ("):
                condition = " when " + split_brackets(rest, rest.index("("))[0]
            given = dict(zip(Header(self.get_header(kernel)).arguments, split(operands)))
            arrays = ", ".join(names.rename(given[argument]) for argument in used[kernel])
            text.append(f"    launch kernel {kernels.index(kernel)}({arrays}){condition}")
        return text

    def get_header(self, name):
        lines = self.items[name]
        return lines[: next(at for at, line in enumerate(lines) if line.endswith("{")) + 1]


def get_digest(text):
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:16]


class Row:
    """A line of the table: a kernel, its digest, and "registers+spilled bytes" for each entry in the code."""

    def __init__(self, name, digest, registers=None, text=None):
        self.name, self.digest, self.registers, self.text = name, digest, registers, text

    def __str__(self):
        return f"  {self.name:<40} {self.digest}" + (f"  {self.registers}" if self.registers else "")


class Binding:
    """A line of the table with words for tilewrightc; marked: its registers are compared in every tier."""

    def __init__(self, line):
        self.is_marked = line.startswith("* ")
        self.label = line[2:] if self.is_marked else line
        self.rows = []

    def get_command(self, options, emit):
        kernel, *words = self.label.split()
        words = [re.sub(r"^mods/(.*)", rf"--with={options.kernels}/mods/\1.mlir", word) for word in words]
        words = [word if word.startswith("-") else f"--param={word}" for word in words]
        return ["tilewrightc", f"{options.kernels}/{kernel}.mlir", *words, f"--emit={emit}"]

    def get_chip(self):
        return re.search(r"--target=(\w+)", self.label)[1]

    def get_folder(self, folder):
        return os.path.join(folder, re.sub(r"[^\w=.]+", "_", self.label))


class Table:
    def __init__(self, path):
        self.path, self.head, self.ptxas, self.bindings = path, [], None, []
        with open(path) as file:
            for line in file.read().splitlines():
                if line.startswith("ptxas "):
                    self.ptxas = line.split()[1]
                elif line.startswith("#") or not line:
                    self.head += [line] if not self.bindings and self.ptxas is None else []
                elif not line.startswith("  "):
                    self.bindings.append(Binding(line))
                else:
                    self.bindings[-1].rows.append(Row(*line.split(None, 2)))

    def write(self, ptxas):
        lines = self.head + [f"ptxas {ptxas}"]
        for binding in self.bindings:
            lines += ["", "* " * binding.is_marked + binding.label, *map(str, binding.rows)]
        with open(self.path, "w") as file:
            file.write("\n".join(lines) + "\n")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return done


def get_registers(options, binding):
    """"registers+spilled bytes" of each entry, by its name."""
    with tempfile.TemporaryDirectory() as work:
        ptx = os.path.join(work, "kernel.ptx")
        run(*binding.get_command(options, "ptx"), "-o", ptx)
        log = run("ptxas", "-v", f"-arch={binding.get_chip()}", ptx, "-o", os.path.join(work, "kernel.cubin")).stderr
    return {name: f"{used}+{int(stored) + int(loaded)}" for name, stored, loaded, used in ENTRY.findall(log)}


def compile_rows(options, binding, with_registers):
    """The rows of a binding as the compiler at hand makes them."""
    module = Module(run(*binding.get_command(options, "tgpu")).stdout)
    rows = [Row(name, get_digest(text), text=text) for name, text in module.normalize()]
    if options.store:
        folder = binding.get_folder(options.store)
        os.makedirs(folder, exist_ok=True)
        for row in rows:
            with open(os.path.join(folder, row.name + ".txt"), "w") as file:
                file.write("\n".join(row.text) + "\n")
    if with_registers:
        entries = get_registers(options, binding)
        for row in rows:
            own = [entries.pop(name) for name in (row.name, row.name + "_aligned") if name in entries]
            row.registers = " ".join(own) or None
        if entries:
            raise RuntimeError(f"{binding.label}: no kernel has the entries {', '.join(entries)}")
    return rows


def find_differences(options, binding, rows, with_registers):
    """Yields lines; nothing if the rows are those of the table."""
    def get_content(row):
        return row.digest, row.registers if with_registers else None

    if [get_content(row) for row in binding.rows] == [get_content(row) for row in rows]:
        return
    yield binding.label
    old, new = {row.name: row for row in binding.rows}, {row.name: row for row in rows}
    for name in dict.fromkeys([*old, *new]):
        before, now = old.get(name), new.get(name)
        if not before or not now:
            yield f"  {name}: " + (f"is new, digest {now.digest}" if now else f"is gone, digest {before.digest}")
            continue
        if before.digest != now.digest:
            yield f"  {name}: digest {before.digest} is now {now.digest}"
            yield from show_difference(options, binding, now)
        if with_registers and before.registers != now.registers:
            yield f"  {name}: registers and spilled bytes {before.registers or 'none'} are now {now.registers or 'none'}"
    if {name: row.digest for name, row in old.items()} == {name: row.digest for name, row in new.items()}:
        if list(old) != list(new):
            yield f"  the order of launches: {', '.join(old)} is now {', '.join(new)}"


def show_difference(options, binding, row):
    if not options.against:
        return
    path = os.path.join(binding.get_folder(options.against), row.name + ".txt")
    if not os.path.exists(path):
        yield f"    there is no {path} to compare with"
        return
    with open(path) as file:
        before = file.read().splitlines()
    if get_digest(before) == row.digest:
        yield f"    {path} is the same: it is not the text of the table's digest"
    for line in list(difflib.unified_diff(before, row.text, "before", "now", lineterm="", n=2)):
        yield "    " + line


def find_ptxas():
    """The version of ptxas; None if there is none."""
    if not shutil.which("ptxas"):
        return None
    return re.search(r"release [\d.]+, V([\d.]+)", run("ptxas", "--version").stdout)[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--store")
    parser.add_argument("--against")
    parser.add_argument("--show")
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kernels", default=os.path.join(ROOT, "kernels"))
    parser.add_argument("--table", default=os.path.join(FOLDER, "digests.txt"))
    options = parser.parse_args()
    os.environ["PATH"] = os.pathsep.join(
        [os.environ["PATH"], os.path.join(ROOT, "build", "bin"), os.path.join(ROOT, "build", "ptxas"), "/usr/local/cuda/bin"]
    )
    if options.show:
        with open(options.show) as file:
            for name, text in Module(file.read()).normalize():
                print(f"{name} {get_digest(text)}", *text, "", sep="\n")
        return 0
    table, ptxas = Table(options.table), find_ptxas()
    if options.write and not ptxas:
        sys.exit("the table has the registers that ptxas reports, but there is no ptxas (scripts/install-ptxas.sh)")
    is_known = ptxas and (options.write or ptxas == table.ptxas)
    chosen = [binding for binding in table.bindings if options.match in binding.label]
    if not chosen:
        sys.exit(f"no binding of {options.table} contains '{options.match}'")
    if options.write and len(chosen) < len(table.bindings) and ptxas != table.ptxas:
        sys.exit(f"the table has registers of ptxas {table.ptxas}, this is {ptxas}: write all bindings")

    def check(binding):
        with_registers = bool(is_known and (options.write or IS_FULL or binding.is_marked))
        rows = compile_rows(options, binding, with_registers)
        return binding, rows, with_registers, list(find_differences(options, binding, rows, with_registers))

    differing, kernels, compared = 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for binding, rows, with_registers, differences in pool.map(check, chosen):
            print(*differences, sep="\n", end="\n" * bool(differences), flush=True)
            differing += bool(differences)
            kernels += sum(row.name != PROGRAM for row in rows)
            compared += sum(row.name != PROGRAM for row in rows) if with_registers else 0
            if options.write:
                binding.rows = rows
    registers = f"registers of {compared} compared"
    if not ptxas:
        registers = "registers not compared: there is no ptxas"
    elif not is_known:
        registers = f"registers not compared: ptxas is {ptxas}, those of the table are of {table.ptxas}"
    print(f"{len(chosen)} bindings, {kernels} kernels, {differing} bindings differ; {registers}")
    if options.write:
        table.write(ptxas)
        return 0
    if differing:
        print("If the change is meant to change this code, write the table again with `make digests`.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts the options of a run to text, with the files that they name.

#include "lib/Driver/ReproducerWriter.h"

#include "base/Npy/Npy.h"
#include "dialect/Tile/TextInput.h"
#include "dialect/Tile/Tile.h"
#include "lib/Support/MakeError.h"
#include "passes/Tile/LinkLibraries.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Regex.h"

using namespace tilewright;

namespace {

/// A canonical path, by which files can be distinguished and related to each other.
std::string toAbsolute(llvm::StringRef path) {
  llvm::SmallString<128> absolute(path);
  (void)llvm::sys::fs::make_absolute(absolute);
  llvm::sys::path::remove_dots(absolute, /*remove_dot_dot=*/true);
  return absolute.str().str();
}

/// Options of a side of a comparison whose value is a path.
bool namesFile(llvm::StringRef name) {
  return name == "file" || name == "with" || name == "blocks";
}

class Writer {
public:
  Writer(const ReproducerRequest &request, std::vector<std::string> &replaced)
      : request(request), replaced(replaced) {}
  llvm::Expected<Reproducer> write();

private:
  struct Text {
    std::string path; ///< absolute
    std::string content;
  };

  llvm::Error addText(llvm::StringRef path);
  void addText(llvm::StringRef path, llvm::StringRef content);
  llvm::Error addSides();
  llvm::Error addArrays();
  llvm::Expected<std::string> addData(const ArrayRequest &array);
  std::string nameOf(llvm::StringRef path) const;
  void option(llvm::StringRef name, const llvm::Twine &value) {
    result.options.push_back(("--" + name + "=" + value).str());
  }

  const ReproducerRequest &request;
  std::vector<std::string> &replaced;
  Reproducer result;
  std::vector<Text> texts;
  std::string root; ///< names of the texts
  size_t dataBytes = 0;
};

void Writer::addText(llvm::StringRef path, llvm::StringRef content) {
  std::string absolute = toAbsolute(path);
  if (llvm::any_of(texts, [&](const Text &text) { return text.path == absolute; }))
    return;
  texts.push_back({absolute, content.str()});
  // By text search, since the file may be one that cannot be parsed.
  static const llvm::Regex link(
      "tile\\.link[[:space:]]+(\"[^\"]+\"([[:space:]]*,[[:space:]]*\"[^\"]+\")*)");
  llvm::SmallVector<llvm::StringRef> matches;
  for (llvm::StringRef rest = content; link.match(rest, &matches);
       rest = rest.drop_front(matches[0].end() - rest.begin())) {
    llvm::SmallVector<llvm::StringRef> parts; // names, and what is between them
    matches[1].split(parts, '"');
    for (size_t i = 1; i < parts.size(); i += 2) {
      // Only files that the run itself reads: reproducers are given to others.
      if (tile::findLinkFault(parts[i]))
        continue;
      FileBeside linked = findBeside(absolute, parts[i]);
      if (linked.place == FileBeside::Place::Inside && llvm::sys::fs::is_regular_file(linked.path))
        llvm::consumeError(addText(linked.path));
    }
  }
}

llvm::Error Writer::addText(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(path);
  if (!buffer)
    return makeError("cannot open '" + path + "': " + llvm::toString(buffer.takeError()));
  addText(path, (*buffer)->getBuffer());
  return llvm::Error::success();
}

/// The files that the sides of a comparison name.
llvm::Error Writer::addSides() {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::SplitString(request.compare, parts, ",+");
  for (llvm::StringRef part : parts) {
    auto [name, path] = part.split('=');
    if (namesFile(name))
      if (llvm::Error error = addText(path))
        return error;
  }
  return llvm::Error::success();
}

/// "{}/" and the path of the file relative to the common folder.
std::string Writer::nameOf(llvm::StringRef path) const {
  llvm::SmallString<128> name(toAbsolute(path));
  llvm::sys::path::replace_path_prefix(name, root, "");
  return "{}/" + llvm::StringRef(name).ltrim('/').str();
}

llvm::Expected<std::string> Writer::addData(const ArrayRequest &array) {
  auto buffer = llvm::MemoryBuffer::getFile(array.input, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError("cannot open '" + array.input + "': " + buffer.getError().message());
  dataBytes += (*buffer)->getBufferSize();
  if (dataBytes > mostReproducerData)
    return makeError("the arrays of a reproducer may have " +
                     llvm::Twine(mostReproducerData >> 20) + " MiB, but with '" + array.name +
                     "' they have more; give smaller ones, or --in " + array.name +
                     "=random@DIMxDIM... if the values do not matter");
  std::string name = "data/" + array.name + ".npy";
  result.files.push_back({name, (*buffer)->getBuffer().str(), /*isBinary=*/true});
  return "{}/" + name;
}

llvm::Error Writer::addArrays() {
  for (const ArrayRequest &array : request.run.binding.arrays) {
    std::string type = array.type ? ":" + std::string(elementTypeName(*array.type)) : "";
    auto shapeOf = [&](llvm::ArrayRef<int64_t> shape) {
      return "@" + llvm::join(llvm::map_range(shape, llvm::itostr), "x");
    };
    if (array.isRandom || array.input.empty()) {
      option(array.isRandom ? "in" : "out", array.name +
                                                (array.isRandom ? "=random" : "=/dev/null") + type +
                                                shapeOf(array.shape));
      continue;
    }
    Result<NpyKind> kind = inspectNpy(array.input);
    if (!kind)
      return makeError(kind.message());
    bool isFloat =
        kind->type == NpyType::F16 || kind->type == NpyType::F32 || kind->type == NpyType::F64;
    if (array.output.empty() && isFloat && !request.embedsData) {
      replaced.push_back(array.name);
      option("in", array.name + "=random" + type + shapeOf(kind->shape));
      continue;
    }
    llvm::Expected<std::string> name = addData(array);
    if (!name)
      return name.takeError();
    if (array.output.empty())
      option("in", array.name + "=" + *name + type);
    else
      option("inout", array.name + "=" + *name + type + "=/dev/null");
  }
  return llvm::Error::success();
}

llvm::Expected<Reproducer> Writer::write() {
  const FileRunRequest &run = request.run;
  std::string file = run.file == "-" ? "kernel.mlir" : run.file;
  std::string blocks = findBlocksFile(run.compile.blocks);
  addText(file, request.text);
  for (const std::string &path : run.compile.with)
    if (llvm::Error error = addText(path))
      return error;
  if (!blocks.empty())
    if (llvm::Error error = addText(blocks))
      return error;
  if (llvm::Error error = addSides())
    return error;
  root = llvm::sys::path::parent_path(texts.front().path).str();
  for (const Text &text : texts)
    while (!llvm::StringRef(text.path).starts_with(root == "/" ? root : root + "/"))
      root = llvm::sys::path::parent_path(root).str();

  result.comments.push_back("Run it with tilewright-run; options after its name take precedence "
                            "over the options below.");
  result.comments.push_back(("Made by tilewright " + getVersion() + ".").str());
  if (auto isa = llvm::sys::Process::GetEnv("TILEWRIGHT_ISA"))
    result.comments.push_back("Made with TILEWRIGHT_ISA=" + *isa + ".");
  result.options.push_back(nameOf(file));
  if (!run.compile.kernel.empty())
    option("kernel", run.compile.kernel);
  if (!run.compile.program.empty())
    option("program", run.compile.program);
  for (const auto &[name, value] : request.params)
    option("param", name + "=" + value);
  for (const std::string &path : run.compile.with)
    option("with", nameOf(path));
  if (run.compile.fastMath)
    result.options.push_back("--fast-math");
  if (run.compile.debugOps)
    result.options.push_back("--debug-ops");
  if (!blocks.empty())
    option("blocks", nameOf(blocks));
  if (run.compile.length)
    option("length", llvm::Twine(run.compile.length));
  if (run.compile.sums != "auto")
    option("sums", run.compile.sums);
  if (request.compare.empty()) {
    option("device", run.device);
  } else {
    // A path ends where the next option or side begins.
    llvm::SmallVector<llvm::StringRef> sides;
    llvm::StringRef(request.compare).split(sides, ',');
    std::vector<std::string> texts;
    for (llvm::StringRef side : sides) {
      llvm::SmallVector<llvm::StringRef> parts;
      side.split(parts, '+');
      std::vector<std::string> renamed;
      for (llvm::StringRef part : parts) {
        auto [name, path] = part.split('=');
        renamed.push_back(namesFile(name) ? (name + "=" + nameOf(path)).str() : part.str());
      }
      texts.push_back(llvm::join(renamed, "+"));
    }
    option("compare", llvm::join(texts, ","));
    if (!request.tolerance.empty())
      option("tolerance", request.tolerance);
  }
  if (!run.target.empty())
    option("target", run.target);
  if (run.warps != GpuOptions().warps)
    option("warps", llvm::Twine(run.warps));
  for (const std::string &text : run.schedule)
    option("schedule", text);
  if (run.binding.f64)
    option("precision", "f64");
  if (run.checksIndices)
    result.options.push_back("--check-indices");
  option("seed", llvm::Twine(run.binding.seed));
  if (llvm::Error error = addArrays())
    return error;
  for (const ScalarRequest &scalar : run.binding.scalars)
    option("scalar", scalar.name + "=" + scalar.value);
  for (const StridesRequest &strides : run.binding.strides)
    option("strides",
           strides.name + "=" + llvm::join(llvm::map_range(strides.strides, llvm::itostr), ","));

  std::vector<Reproducer::File> data = std::move(result.files);
  result.files.clear();
  for (const Text &text : texts)
    result.files.push_back({nameOf(text.path).substr(3), text.content, false});
  llvm::append_range(result.files, data);
  return std::move(result);
}

} // namespace

llvm::Expected<Reproducer> tilewright::makeReproducer(const ReproducerRequest &request,
                                                      std::vector<std::string> &replaced) {
  return Writer(request, replaced).write();
}

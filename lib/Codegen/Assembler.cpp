// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ptxas, if the machine has it: cubins and their resources.

#include "lib/Codegen/Codegen.h"
#include "lib/Codegen/Dump.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>
#include <optional>

using namespace tilewright;

static constexpr char namingVariable[] = "TILEWRIGHT_PTXAS";

namespace {
struct LastAssembler {
  std::mutex mutex;
  std::string path;
};
} // namespace

static LastAssembler &lastAssembler() {
  static LastAssembler last;
  return last;
}

void tilewright::setLastAssembler(llvm::StringRef path) {
  std::lock_guard<std::mutex> lock(lastAssembler().mutex);
  lastAssembler().path = path.str();
}

bool tilewright::isLastAssembler(llvm::StringRef path) {
  std::lock_guard<std::mutex> lock(lastAssembler().mutex);
  return !path.empty() && path == lastAssembler().path;
}

std::string tilewright::findAssembler() {
  if (auto named = llvm::sys::Process::GetEnv(namingVariable))
    return *named;
  if (auto onPath = llvm::sys::findProgramByName("ptxas"))
    return *onPath;
  llvm::SmallVector<std::string> roots;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto root = llvm::sys::Process::GetEnv(variable))
      roots.push_back(*root);
  roots.push_back("/usr/local/cuda");
  for (const std::string &root : roots) {
    llvm::SmallString<128> path(root);
    llvm::sys::path::append(path, "bin", "ptxas");
    if (llvm::sys::fs::can_execute(path))
      return path.str().str();
  }
  std::lock_guard<std::mutex> lock(lastAssembler().mutex);
  return lastAssembler().path;
}

/// The number that precedes `unit`, as in "16 bytes stack frame"; 0 if there is none.
static int64_t numberBefore(llvm::StringRef line, llvm::StringRef unit) {
  size_t at = line.find(unit);
  if (at == llvm::StringRef::npos)
    return 0;
  llvm::StringRef before = line.take_front(at).rtrim();
  int64_t value = 0;
  if (before.substr(before.find_last_not_of("0123456789") + 1).getAsInteger(10, value))
    return 0;
  return value;
}

std::vector<KernelResources> tilewright::parseAssemblerLog(llvm::StringRef log) {
  std::vector<KernelResources> list;
  for (llvm::StringRef rest = log; !rest.empty();) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    auto [before, after] = line.split("Compiling entry function '");
    if (!after.empty()) {
      list.emplace_back();
      list.back().kernel = after.take_until([](char c) { return c == '\''; }).str();
      continue;
    }
    if (list.empty())
      continue;
    KernelResources &resources = list.back();
    if (line.contains("stack frame")) {
      resources.stackBytes = numberBefore(line, "bytes stack frame");
      resources.spillStoreBytes = numberBefore(line, "bytes spill stores");
      resources.spillLoadBytes = numberBefore(line, "bytes spill loads");
    } else if (line.contains("Used ")) {
      resources.registers = numberBefore(line, "registers");
      resources.staticSharedBytes = numberBefore(line, "bytes smem");
    }
  }
  return list;
}

/// The path of ptxas, or an error that tells where findAssembler looks.
static llvm::Expected<std::string> requireAssembler() {
  std::string path = findAssembler();
  if (!llvm::sys::Process::GetEnv(namingVariable)) {
    if (!path.empty())
      return path;
    return llvm::createStringError(
        "cannot find ptxas by TILEWRIGHT_PTXAS, on PATH, or in the folder bin of CUDA_HOME, "
        "CUDA_PATH or /usr/local/cuda; emit ptx, which the driver compiles");
  }
  if (path.empty())
    return llvm::createStringError("a cubin requires ptxas, but TILEWRIGHT_PTXAS is empty; unset "
                                   "it, or emit ptx, which the driver compiles");
  if (!llvm::sys::fs::can_execute(path))
    return llvm::createStringError("TILEWRIGHT_PTXAS must be the path of an executable file, but "
                                   "got '" +
                                   path + "'; correct it, or unset it to search for ptxas");
  return path;
}

static llvm::Error makeTemporary(llvm::StringRef suffix, llvm::SmallVectorImpl<char> &path) {
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("tilewright", suffix, path))
    return llvm::createStringError("cannot create a temporary file: " + code.message() +
                                   "; let TMPDIR be a folder that can be written");
  return llvm::Error::success();
}

llvm::Expected<Assembly> tilewright::assembleCubin(llvm::StringRef ptx, llvm::StringRef target) {
  llvm::Expected<const Target &> gpu = findTarget(target);
  if (!gpu)
    return gpu.takeError();
  llvm::Expected<std::string> found = requireAssembler();
  if (!found)
    return found.takeError();
  const std::string &assembler = *found;
  llvm::SmallString<128> source, cubin, log;
  for (auto [suffix, path] : {std::pair<const char *, llvm::SmallString<128> *>{"ptx", &source},
                              {"cubin", &cubin},
                              {"log", &log}})
    if (llvm::Error error = makeTemporary(suffix, *path))
      return std::move(error);
  llvm::FileRemover removers[] = {llvm::FileRemover(source), llvm::FileRemover(cubin),
                                  llvm::FileRemover(log)};
  {
    std::error_code code;
    llvm::raw_fd_ostream stream(source, code);
    if (code)
      return llvm::createStringError("cannot write '" + source + "': " + code.message());
    stream << ptx;
  }
  std::string arch = "-arch=" + std::string(gpu->name);
  llvm::StringRef arguments[] = {assembler, "-v", arch, source, "-o", cubin};
  std::string error;
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), llvm::StringRef(log),
                                                llvm::StringRef(log)};
  // Without a limit of time, which LLVM sets by the alarm of the whole process, other threads'
  // included.
  int status = llvm::sys::ExecuteAndWait(assembler, arguments, std::nullopt, redirects,
                                         /*SecondsToWait=*/0, /*MemoryLimit=*/0, &error);
  Assembly assembly;
  if (auto buffer = llvm::MemoryBuffer::getFile(log))
    assembly.log = (*buffer)->getBuffer().str();
  dump("ptxas.log", assembly.log);
  if (status != 0)
    return llvm::createStringError("ptxas failed ('" + assembler + "')" +
                                   (error.empty() ? "" : ": " + error) + "\n" + assembly.log);
  auto buffer = llvm::MemoryBuffer::getFile(cubin, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return llvm::createStringError(buffer.getError(), "cannot read what ptxas wrote");
  assembly.cubin = (*buffer)->getBuffer().str();
  dump("cubin", assembly.cubin);
  assembly.resources = parseAssemblerLog(assembly.log);
  return assembly;
}

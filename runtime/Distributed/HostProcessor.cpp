// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs tilewright-run on .npy files in a temporary folder.

#include "runtime/Distributed/HostProcessor.h"

#include "runtime/Report.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// The type of an array in a file: that of the view, but .npy files have no bf16.
ElementType fileType(ElementType type) {
  return type == ElementType::BF16 ? ElementType::F32 : type;
}

const char *npyName(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return "<f8";
  case ElementType::F16:
    return "<f2";
  case ElementType::I64:
    return "<i8";
  case ElementType::I32:
    return "<i4";
  default:
    return "<f4";
  }
}

std::string shapeOf(const Argument &view, const char *separator) {
  std::string text;
  for (unsigned i = 0; i < view.rank; ++i)
    text += (i ? separator : "") + std::to_string(view.extents[i]);
  return text;
}

int64_t numElements(const Argument &view) {
  int64_t count = 1;
  for (unsigned i = 0; i < view.rank; ++i)
    count *= view.extents[i];
  return count;
}

/// Calls visit(address of an element) in row-major order.
template <typename Visit> void forEachElement(const Argument &view, Visit visit) {
  int64_t index[maxRank] = {};
  for (int64_t n = numElements(view); n > 0; --n) {
    int64_t offset = 0;
    for (unsigned i = 0; i < view.rank; ++i)
      offset += index[i] * view.strides[i];
    visit(reinterpret_cast<char *>(view.bits) + offset * int64_t(byteWidth(view.type)));
    for (unsigned i = view.rank; i-- > 0 && ++index[i] == view.extents[i];)
      index[i] = 0;
  }
}

Status ioFailure(const std::string &what, const std::string &path) {
  return Status::failure(Code::Io, "cannot " + what + " '" + path + "': " + std::strerror(errno));
}

/// The 10 bytes before the text of the header, and that text.
std::string headerOf(const Argument &view) {
  std::string text = std::string("{'descr': '") + npyName(fileType(view.type)) +
                     "', 'fortran_order': False, 'shape': (" + shapeOf(view, ", ") +
                     (view.rank == 1 ? ",), }" : "), }");
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += char(text.size() & 0xff);
  header += char(text.size() >> 8);
  return header + text;
}

Status writeArray(const std::string &path, const Argument &view) {
  std::string data = headerOf(view);
  forEachElement(view, [&](const char *element) {
    if (view.type != ElementType::BF16) {
      data.append(element, byteWidth(view.type));
      return;
    }
    char wide[4] = {0, 0, element[0], element[1]}; // little endian: the high half of an f32
    data.append(wide, 4);
  });
  FILE *file = std::fopen(path.c_str(), "wb");
  if (!file)
    return ioFailure("write", path);
  bool isWritten = std::fwrite(data.data(), 1, data.size(), file) == data.size();
  return std::fclose(file) == 0 && isWritten ? Status::success() : ioFailure("write", path);
}

Status readText(const std::string &path, std::string &data) {
  FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    return ioFailure("read", path);
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), file)) > 0;)
    data.append(buffer, n);
  std::fclose(file);
  return Status::success();
}

Status readArray(const std::string &path, const Argument &view) {
  std::string data;
  if (Status status = readText(path, data); !status)
    return status;
  const size_t width = byteWidth(fileType(view.type));
  size_t begin = data.size() < 10 ? data.size()
                                  : 10 + (unsigned char)(data[8]) + 256 * (unsigned char)(data[9]);
  if (data.size() != begin + size_t(numElements(view)) * width)
    return Status::failure(Code::Io, "'" + path +
                                         "' must have the array that tilewright-run "
                                         "wrote, but got " +
                                         std::to_string(data.size()) + " bytes");
  const char *from = data.data() + begin;
  forEachElement(view, [&](char *element) {
    // A result of bf16 is in a file of f32, whose value is one of bf16.
    std::memcpy(element, from + width - byteWidth(view.type), byteWidth(view.type));
    from += width;
  });
  return Status::success();
}

/// A folder that is removed, with what is in it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    const char *place = std::getenv("TMPDIR");
    path = std::string(place && *place ? place : "/tmp") + "/tilewright-XXXXXX";
    isMade = mkdtemp(path.data()) != nullptr;
  }
  ~TemporaryFolder() {
    for (const std::string &file : files)
      unlink(file.c_str());
    if (isMade)
      rmdir(path.c_str());
  }
  Status status() const { return isMade ? Status::success() : ioFailure("create", path); }
  std::string add(const std::string &name) {
    files.push_back(path + "/" + name);
    return files.back();
  }

private:
  std::string path;
  bool isMade = false;
  std::vector<std::string> files;
};

std::string textOf(const Argument &scalar) {
  if (scalar.type == ElementType::I1)
    return std::to_string(scalar.bits & 1);
  if (!isFloat(scalar.type))
    return std::to_string(scalar.integer());
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", scalar.real());
  return text;
}

class HostKernel : public ProcessorKernel {
public:
  explicit HostKernel(std::vector<std::string> command) : command(std::move(command)) {}

  bool takes(const std::string &) const override { return true; } // the program says if not

  Status run(const NamedArguments &arguments) override {
    TemporaryFolder folder;
    if (!folder.status())
      return folder.status();
    std::vector<std::string> words = command;
    std::vector<std::pair<std::string, const Argument *>> written;
    for (const NamedArgument &argument : arguments) {
      const Argument &value = argument.value;
      if (value.kind == Argument::Kind::Absent)
        continue;
      if (value.kind == Argument::Kind::Scalar) {
        words.push_back("--scalar=" + argument.name + "=" + textOf(value));
        continue;
      }
      if (value.type == ElementType::I1 || (isFloat(value.type) && byteWidth(value.type) < 2))
        return Status::failure(Code::Unsupported,
                               "an array of the CPU device must have 16 bits or more, but got " +
                                   std::string(elementTypeName(value.type)) + " for '" +
                                   argument.name + "'");
      const std::string path = folder.add(argument.name + ".npy");
      const std::string type(elementTypeName(value.type));
      if (argument.isWritten) {
        words.push_back("--out=" + argument.name + "=" + path + ":" + type + "@" +
                        shapeOf(value, "x"));
        written.emplace_back(path, &value);
      } else {
        if (Status status = writeArray(path, value); !status)
          return status;
        words.push_back("--in=" + argument.name + "=" + path + ":" + type);
      }
    }
    if (Status status = start(words, folder.add("log.txt")); !status)
      return status;
    for (const auto &[path, view] : written)
      if (Status status = readArray(path, *view); !status)
        return status;
    return Status::success();
  }

private:
  static Status start(const std::vector<std::string> &words, const std::string &log) {
    std::vector<char *> pointers;
    for (const std::string &word : words)
      pointers.push_back(const_cast<char *>(word.c_str()));
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t process = 0;
    int error =
        posix_spawnp(&process, words[0].c_str(), &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
      return Status::failure(Code::Io, "the CPU device needs the program tilewright-run, but '" +
                                           words[0] + "' cannot be started (" +
                                           std::strerror(error) +
                                           "); set TILEWRIGHT_RUN to its path");
    int result = 0;
    while (waitpid(process, &result, 0) < 0)
      if (errno != EINTR)
        return ioFailure("wait for", words[0]);
    if (WIFEXITED(result) && WEXITSTATUS(result) == 0)
      return Status::success();
    std::string text;
    (void)readText(log, text);
    while (!text.empty() && text.back() == '\n')
      text.pop_back();
    return Status::failure("the CPU device rejects the call: " + text);
  }

  std::vector<std::string> command;
};

class HostProcessor : public Processor {
public:
  explicit HostProcessor(HostProcessorDesc desc) : desc(std::move(desc)) {}

  Status allocate(uint64_t bytes, uint64_t &address) override {
    address = 0;
    if (!bytes)
      return Status::success();
    void *memory = nullptr;
    if (posix_memalign(&memory, 256, bytes))
      return Status::failure(Code::OutOfMemory, "cannot allocate " + std::to_string(bytes) +
                                                    " bytes of memory of the host; give fewer or "
                                                    "shorter sequences at once");
    std::memset(memory, 0xff, bytes); // NaN: what has not been written must not be read
    address = reinterpret_cast<uint64_t>(memory);
    return Status::success();
  }
  void release(uint64_t address) override { std::free(reinterpret_cast<void *>(address)); }
  cuda::Stream stream(Queue) const override { return nullptr; }
  Status order(Queue, Queue) override { return Status::success(); }
  Status copyRows(uint64_t to, uint64_t toPitch, uint64_t from, uint64_t fromPitch, uint64_t width,
                  uint64_t rows, Queue) override {
    for (uint64_t row = 0; row < rows; ++row)
      std::memcpy(reinterpret_cast<void *>(to + row * toPitch),
                  reinterpret_cast<const void *>(from + row * fromPitch), width);
    return Status::success();
  }
  Status upload(uint64_t to, const void *from, uint64_t bytes) override {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return Status::success();
  }
  Status download(void *to, uint64_t from, uint64_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
    return Status::success();
  }
  bool kernelsDelayMessages() const override { return false; }

  Result<std::unique_ptr<ProcessorKernel>> load(const AttentionDesc &attention) override {
    if (Status status = check(attention); !status)
      return status;
    return make(entryOf(attention), paramsOf(attention), desc.with);
  }
  Result<std::unique_ptr<ProcessorKernel>> load(const std::string &entry,
                                                const Params &params) override {
    return make(entry, params, {});
  }

private:
  Result<std::unique_ptr<ProcessorKernel>> make(const std::string &entry, const Params &params,
                                                const std::vector<std::string> &with) const {
    const std::string file = desc.kernels + "/" + entry + ".mlir";
    std::string text;
    if (Status status = readText(file, text); !status)
      return status;
    bool isProgram = text.find("tile.program @" + entry) != std::string::npos;
    std::vector<std::string> command = {desc.program, file, "--device=" + desc.device, "--quiet",
                                        (isProgram ? "--program=" : "--kernel=") + entry};
    for (const auto &param : params)
      command.push_back("--param=" + toVariantText({param}));
    for (const std::string &each : with)
      command.push_back("--with=" + each);
    return std::unique_ptr<ProcessorKernel>(std::make_unique<HostKernel>(std::move(command)));
  }

  HostProcessorDesc desc;
};

} // namespace

Result<std::unique_ptr<Processor>>
tilewright::runtime::makeHostProcessor(const HostProcessorDesc &desc) {
  HostProcessorDesc own = desc;
  const char *named = std::getenv("TILEWRIGHT_RUN");
  if (own.program.empty())
    own.program = named && *named ? named : "tilewright-run";
  return std::unique_ptr<Processor>(std::make_unique<HostProcessor>(std::move(own)));
}

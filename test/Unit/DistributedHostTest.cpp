// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU device as a processor: which program it starts, with which arguments, and what it makes
// of the files. A shell script takes the place of tilewright-run.

#include "DistributedTesting.h"

#include <fstream>
#include <sys/stat.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

/// A script that is removed.
class Script {
public:
  explicit Script(const std::string &text) {
    char name[] = "/tmp/tilewright-script-XXXXXX";
    int file = mkstemp(name);
    close(file);
    path = name;
    std::ofstream(path) << "#!/bin/sh\n" << text;
    chmod(name, 0700);
  }
  ~Script() { unlink(path.c_str()); }
  std::string path;
};

Result<std::unique_ptr<ProcessorKernel>> load(const std::string &program,
                                              std::vector<std::string> with = {}) {
  HostProcessorDesc desc;
  desc.program = program;
  desc.with = std::move(with);
  static std::vector<std::unique_ptr<Processor>> processors; // kernels need theirs
  processors.push_back(std::move(*makeHostProcessor(desc)));
  AttentionDesc attention;
  attention.headDim = 16;
  attention.causal = AttentionDesc::Causal::TopLeft;
  return processors.back()->load(attention);
}

Status run(const std::string &program, const NamedArguments &arguments) {
  auto kernel = load(program, {"kernels/mods/softcap.mlir"});
  return kernel ? (*kernel)->run(arguments) : kernel.status();
}

TEST(DistributedHost, WritesArraysAndReadsResults) {
  // The script returns each input as the result, and prints its options if there is none.
  Script copy("for each; do case $each in --in=x=*) from=${each#--in=x=};;"
              " --out=o=*) to=${each#--out=o=};; esac; done\n"
              "if [ -z \"$from\" ]; then echo \"$@\"; exit 3; fi\n"
              "cp \"${from%:*}\" \"${to%%:*}\"\n");
  for (ElementType type : {ElementType::F16, ElementType::BF16, ElementType::F32}) {
    HostArray x(type, {2, 3, 4}), o(type, {2, 3, 4});
    x.fill(1);
    Argument every = x.view(); // two of the four columns, in another order of dimensions
    every.extents[2] = 2, every.strides[2] = 2;
    std::swap(every.extents[0], every.extents[1]), std::swap(every.strides[0], every.strides[1]);
    Argument result = o.view();
    result.extents[2] = 2, result.strides[2] = 2;
    std::swap(result.extents[0], result.extents[1]),
        std::swap(result.strides[0], result.strides[1]);
    ASSERT_TRUE(run(copy.path, {{"x", every}, {"o", result, true}}).ok());
    for (int64_t i = 0; i < x.size(); ++i) // odd columns are not a part of the view
      EXPECT_TRUE(i % 2 ? std::isnan(o.get(i)) : o.get(i) == x.get(i)) << i;
  }
  Status status = run(copy.path, {{"scale", Argument::scalar(0.1f)},
                                  {"first_row", Argument::scalar(int32_t(-3))},
                                  {"is", Argument::scalar(true)},
                                  {"lse", Argument()}});
  EXPECT_EQ(
      status.message(),
      "the CPU device rejects the call: kernels/attention_forward.mlir --device=cpu --quiet "
      "--kernel=attention_forward --param=D=16 --param=DV=16 --param=T=bf16 "
      "--param=CAUSAL=top_left --param=WINDOW=false --param=PACKED=false --param=LISTED=false "
      "--param=CACHED=false --with=kernels/mods/softcap.mlir "
      "--scalar=scale=0.10000000149011612 --scalar=first_row=-3 --scalar=is=1");
}

TEST(DistributedHost, Errors) {
  HostArray x(ElementType::F32, {2, 3});
  Status status = run("/nowhere/tilewright-run", {{"x", x.view()}});
  EXPECT_EQ(status.code(), Code::Io);
  EXPECT_EQ(status.message(),
            "the CPU device needs the program tilewright-run, but '/nowhere/tilewright-run' cannot "
            "be started (No such file or directory); set TILEWRIGHT_RUN to its path");
  Script nothing("exit 0\n");
  EXPECT_NE(run(nothing.path, {{"o", x.view(), true}}).message().find("o.npy': No such file"),
            std::string::npos);
  Script tooLittle("for each; do case $each in --out=o=*) to=${each#--out=o=};; esac; done\n"
                   "echo nothing > \"${to%%:*}\"\n");
  EXPECT_NE(run(tooLittle.path, {{"o", x.view(), true}})
                .message()
                .find("o.npy' must have the array that tilewright-run wrote, but got 8 bytes"),
            std::string::npos);
  Argument narrow = x.view();
  narrow.type = ElementType::E4M3;
  EXPECT_EQ(run(nothing.path, {{"k", narrow}}).message(),
            "an array of the CPU device must have 16 bits or more, but got e4m3 for 'k'");
  HostProcessorDesc desc;
  desc.kernels = "/nowhere";
  auto processor = makeHostProcessor(desc);
  AttentionDesc attention;
  attention.headDim = 16;
  EXPECT_EQ((*processor)->load(attention).message(),
            "cannot read '/nowhere/attention_forward.mlir': No such file or directory");
  attention.maxRows = 3; // of a decode
  EXPECT_EQ((*processor)->load(attention).status().code(), Code::InvalidArgument);
  status = ProcessorMemory::allocate(**processor, uint64_t(1) << 62).status();
  EXPECT_EQ(status.message(), "cannot allocate 4611686018427387904 bytes of memory of the host; "
                              "give fewer or shorter sequences at once");
  EXPECT_EQ(status.code(), Code::OutOfMemory);
}

} // namespace

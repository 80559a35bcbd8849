// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common options of all tools that compile, as LLVM command-line options. To be included only
// by the file with main().

#ifndef TILEWRIGHT_LIB_DRIVER_COMPILEOPTIONS_H
#define TILEWRIGHT_LIB_DRIVER_COMPILEOPTIONS_H

#include "lib/Driver/ToolSupport.h"

#include "llvm/Support/CommandLine.h"

namespace tilewright {

/// A local variable of main(): LLVM refers to options by address.
struct CompileOptions {
  explicit CompileOptions(llvm::cl::OptionCategory &category)
      : file(llvm::cl::Positional, llvm::cl::Required, llvm::cl::desc("FILE"),
             llvm::cl::cat(category)),
        kernel("kernel", llvm::cl::desc("The kernel to compile"), llvm::cl::value_desc("name"),
               llvm::cl::cat(category)),
        program("program", llvm::cl::desc("The program to compile"), llvm::cl::value_desc("name"),
                llvm::cl::cat(category)),
        params("param",
               llvm::cl::desc("Value of a parameter: an integer, true or false, a value of an "
                              "enum, or a type (f64, f32, f16, bf16, e4m3, e5m2, i8)"),
               llvm::cl::value_desc("NAME=VALUE"), llvm::cl::cat(category)),
        with("with", llvm::cl::desc("A file whose functions and captures replace those of FILE"),
             llvm::cl::value_desc("file"), llvm::cl::cat(category)),
        fastMath("fast-math", llvm::cl::desc("Allow rewrites that change the rounding of results"),
                 llvm::cl::cat(category)),
        debugOps("debug-ops",
                 llvm::cl::desc("Code for GPUs executes tile.print and tile.assert, which it "
                                "otherwise leaves out. Slow: for finding faults"),
                 llvm::cl::cat(category)),
        blocks("blocks",
               llvm::cl::desc("Rows (JSON) that take precedence over the table of blocks; by "
                              "default the environment variable TILEWRIGHT_BLOCKS"),
               llvm::cl::value_desc("file"), llvm::cl::cat(category)),
        length("length",
               llvm::cl::desc(
                   "Maximum length of the loops for which blocks are chosen; 0: any length"),
               llvm::cl::init(0), llvm::cl::value_desc("n"), llvm::cl::cat(category)),
        sums("sums",
             llvm::cl::desc("How instances of a GPU add to sums, up to one of each kind, with a "
                            "comma: auto (by the table of strategies); the terms of "
                            "tile.accumulate whole, or apart wherever it is possible; those of "
                            "tile.contribute ordered or unordered; loops that tile.combine marks "
                            "in N shares (1: none). In order, each run gives the same bits: "
                            "attention's backward of D 64 and 128 on an H200 has 1.00 of the speed "
                            "in the mean, 0.90 at 16384 rows. Where no order is possible, its "
                            "DETERMINISTIC computes seven products for a pair instead of five"),
             llvm::cl::init("auto"),
             llvm::cl::value_desc("auto|whole|apart|ordered|unordered|shares=N"),
             llvm::cl::cat(category)) {}

  CompileRequest request() const {
    return {kernel,
            program,
            {params.begin(), params.end()},
            {with.begin(), with.end()},
            fastMath,
            blocks,
            length,
            sums,
            debugOps};
  }

  llvm::cl::opt<std::string> file, kernel, program;
  llvm::cl::list<std::string> params, with;
  llvm::cl::opt<bool> fastMath, debugOps;
  llvm::cl::opt<std::string> blocks;
  llvm::cl::opt<int64_t> length;
  llvm::cl::opt<std::string> sums;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_COMPILEOPTIONS_H

// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments as given on a command line, as text and parsed. Independent of the kernel: see
// NpyBinding.h for that.

#ifndef TILEWRIGHT_LIB_DRIVER_BINDINGOPTIONS_H
#define TILEWRIGHT_LIB_DRIVER_BINDINGOPTIONS_H

#include "base/Numeric/ElementType.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {

/// One array. An array with an input file has the shape of that file.
struct ArrayRequest {
  std::string name;
  std::string input;                ///< empty: the array is initially poison, unless it is random
  std::string output;               ///< empty: the array is not written anywhere
  std::optional<ElementType> type;  ///< element type in the kernel; none: that of the view
  llvm::SmallVector<int64_t> shape; ///< if there is no input
  bool isRandom = false;            ///< filled with normally distributed numbers
};

struct ScalarRequest {
  std::string name, value;
};

struct StridesRequest {
  std::string name;
  llvm::SmallVector<int64_t> strides; ///< in elements
};

struct BindingRequest {
  /// "; did you mean 'v'?" after a name that is no argument, of equally similar ones an argument
  /// that is not given; else a list of all.
  std::string suggestArgument(llvm::StringRef name,
                              llvm::ArrayRef<llvm::StringRef> arguments) const;

  std::vector<ArrayRequest> arrays;
  std::vector<ScalarRequest> scalars;
  std::vector<StridesRequest> strides;
  /// For random arrays.
  uint64_t seed = 0;
  /// Every float runs in f64: float arrays are stored as f64, regardless of the view's type.
  bool f64 = false;
  /// With f64: given floats are rounded to the type that the kernel declares, so that the run can
  /// be compared with a run that rounds.
  bool roundsInputs = false;
};

// The text of one option each. The name ends at the first '='. What follows the last ':' of a file
// is a type if it has neither '.' nor '/', so that "a:b.npy" is a path; the shape follows the last
// '@'; the output of --inout follows the last '='. Errors state the form that was expected.
/// NAME=x.npy[:TYPE], or NAME=random[:TYPE]@DIMxDIM... .
llvm::Expected<ArrayRequest> parseIn(llvm::StringRef text);
llvm::Expected<ArrayRequest> parseOut(llvm::StringRef text);       ///< NAME=y.npy[:TYPE]@DIMxDIM...
llvm::Expected<ArrayRequest> parseInOut(llvm::StringRef text);     ///< NAME=x.npy[:TYPE]=y.npy
llvm::Expected<ScalarRequest> parseScalar(llvm::StringRef text);   ///< NAME=VALUE
llvm::Expected<StridesRequest> parseStrides(llvm::StringRef text); ///< NAME=s0,s1,...
llvm::Expected<std::pair<std::string, std::string>>
parseParam(llvm::StringRef text); ///< NAME=VALUE

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_BINDINGOPTIONS_H

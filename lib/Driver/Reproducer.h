// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One text file with all options and files that a run of tilewright-run needs.
//
//   // tilewright reproducer 1
//   // ...                                  comments
//   //--- options
//   --param=T=f32                           one option in each line; {} is the folder of the files
//   {}/row_softmax.mlir
//   //--- row_softmax.mlir
//   ...                                     a line that begins with "//---" has one '-' more here
//   //--- base64 x.npy
//   k05VTVBZAQB2AHsn...
//
// LLVM's split-file can also split such a text, but does not decode base64.

#ifndef TILEWRIGHT_LIB_DRIVER_REPRODUCER_H
#define TILEWRIGHT_LIB_DRIVER_REPRODUCER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tilewright {

struct Reproducer {
  struct File {
    std::string name; ///< relative, with '/'
    std::string content;
    bool isBinary = false;
  };
  std::vector<std::string> comments, options;
  std::vector<File> files;

  std::string print() const;
  /// Errors: another format or version, names that lead out of the folder of the files, options
  /// that --save-reproducer does not write or that name other files, invalid base64.
  static llvm::Expected<Reproducer> parse(llvm::StringRef text);
};

/// The files of a reproducer, in a folder that exists during the lifetime of this object.
class UnpackedReproducer {
public:
  static llvm::Expected<UnpackedReproducer> create(const Reproducer &reproducer);
  UnpackedReproducer(UnpackedReproducer &&other) : folder(std::move(other.folder)) {
    other.folder.clear();
  }
  ~UnpackedReproducer();

  /// The options with {} replaced, without those that `given` also has: an option of the same name
  /// and, for options that name an argument, parameter or key (--in, --param, ...), the same key.
  std::vector<std::string> getOptions(const Reproducer &reproducer,
                                      llvm::ArrayRef<llvm::StringRef> given) const;

private:
  explicit UnpackedReproducer(std::string folder) : folder(std::move(folder)) {}
  std::string folder;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_REPRODUCER_H

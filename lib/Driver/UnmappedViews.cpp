// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A run without the kernels: its launches with their views, compared with the tensor maps.

#include "lib/Driver/UnmappedViews.h"

#include "lib/Bundle/HeldDiagnostics.h"
#include "lib/Bundle/ManifestBuilder.h"
#include "lib/Interpreter/EntryRun.h"
#include "lib/Interpreter/TgpuKernels.h"
#include "runtime/Launch.h"

#include "mlir/IR/SymbolTable.h"

using namespace tilewright;
using namespace tilewright::interpreter;

namespace {

constexpr int64_t chunk = 16; // bytes

runtime::Argument toArgument(const BoundArgument &bound) {
  if (!bound.isView || bound.isAbsent)
    return runtime::Argument::absent(); // a tensor map is of a view
  const View &view = bound.view;
  return runtime::Argument::view(reinterpret_cast<uintptr_t>(view.data), view.type, view.rank(),
                                 view.extents.data(), view.strides.data());
}

class ViewCheck : public KernelRunner {
public:
  /// The kernels of a mapped module.
  llvm::Error add(tgpu::KernelOp kernel) {
    llvm::Expected<runtime::KernelSpec> spec = bundle::makeKernelSpec(kernel);
    if (!spec)
      return spec.takeError();
    specs[kernel.getSymName()] = std::move(*spec);
    return llvm::Error::success();
  }

  mlir::LogicalResult compile(tile::KernelOp) override { return mlir::success(); }

  mlir::LogicalResult launch(tile::KernelOp kernel, llvm::ArrayRef<BoundArgument> arguments,
                             const llvm::StringMap<BoundArgument> &captures) override {
    const runtime::KernelSpec &spec = specs[kernel.getSymName()];
    std::vector<runtime::Argument> given;
    for (const auto &[i, contract] : llvm::enumerate(spec.arguments))
      given.push_back(
          toArgument(i < arguments.size() ? arguments[i] : captures.lookup(contract.name)));
    std::vector<const runtime::Argument *> pointers;
    for (const runtime::Argument &argument : given)
      pointers.push_back(&argument);
    for (const runtime::TensorMapSpec &map : spec.tensorMaps) {
      runtime::Rejection rejection;
      if (reason.empty() && !runtime::canDescribe(map, given[map.argument], rejection))
        reason = rejection.toString(spec, {pointers.data(), 0});
    }
    return mlir::success();
  }

  std::string reason;

private:
  llvm::StringMap<runtime::KernelSpec> specs;
};

bool isAligned(const ArrayArgument &array) {
  int64_t width = static_cast<int64_t>(byteWidth(array.type));
  if (reinterpret_cast<uintptr_t>(array.data) % chunk != 0)
    return false;
  for (auto [dim, extent, stride] : llvm::enumerate(array.shape, array.strides)) {
    bool isRow = dim + 1 == array.shape.size();
    if (isRow && extent * width % chunk != 0)
      return false;
    if (extent > 1 && (isRow ? stride != 1 : stride <= 0 || stride * width % chunk != 0))
      return false;
  }
  // Pages consist of whole rows.
  if (array.shape.size() > 2 && (array.strides[1] == 0 || array.strides[0] % array.strides[1] != 0))
    return false;
  return true;
}

} // namespace

bool tilewright::areAligned(const llvm::StringMap<Argument> &arguments) {
  return llvm::all_of(arguments, [](const auto &entry) {
    const auto *array = std::get_if<ArrayArgument>(&entry.second);
    return !array || isAligned(*array);
  });
}

std::string tilewright::explainUnmappedView(mlir::ModuleOp mapped, llvm::StringRef entry,
                                            const llvm::StringMap<Argument> &arguments) {
  HeldDiagnostics held(mapped.getContext()); // the run reports what is wrong
  ViewCheck check;
  for (auto kernel : mapped.getOps<tgpu::KernelOp>())
    if (llvm::Error error = check.add(kernel)) {
      llvm::consumeError(std::move(error));
      return "";
    }
  mlir::OwningOpRef<mlir::ModuleOp> copy = mapped.clone();
  unwrapTgpuKernels(*copy);
  mlir::Operation *found = mlir::SymbolTable::lookupSymbolIn(*copy, entry);
  if (!found || mlir::failed(runEntry(found, arguments, {}, check)))
    return "";
  return check.reason;
}

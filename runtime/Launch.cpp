// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks, packing and the launch of one kernel.

#include "runtime/Launch.h"

#include <limits>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

constexpr int64_t maxExtent = std::numeric_limits<int32_t>::max();
/// The strides of a tensor map have 40 bits.
constexpr int64_t maxMapStride = int64_t(1) << 40;

std::string typeName(ElementType type) { return std::string(elementTypeName(type)); }

bool isEmpty(const Argument &view) {
  for (unsigned i = 0; i < view.rank; ++i)
    if (view.extents[i] == 0)
      return true;
  return false;
}

Status checkView(const ArgumentSpec &spec, const Argument &view, const std::string &where) {
  auto invalid = [&](const std::string &what) {
    return Status::failure(Code::InvalidArgument, where + " " + what);
  };
  if (view.type != spec.type)
    return invalid("must have element type " + typeName(spec.type) + ", but got " +
                   typeName(view.type));
  if (view.rank != spec.extents.size())
    return invalid("must have rank " + std::to_string(spec.extents.size()) + ", but got rank " +
                   std::to_string(view.rank));
  for (unsigned i = 0; i < view.rank; ++i) {
    int64_t extent = view.extents[i];
    if (extent < 0 || extent > maxExtent)
      return invalid("has extent " + std::to_string(extent) + " along dimension " +
                     std::to_string(i) + ", which must be from 0 to 2147483647");
    if (spec.extents[i] >= 0 && extent != spec.extents[i])
      return invalid("must have extent " + std::to_string(spec.extents[i]) + " along dimension " +
                     std::to_string(i) + ", but got " + std::to_string(extent));
  }
  if (isEmpty(view))
    return Status::success();
  if (view.bits == 0)
    return invalid("is a null pointer, but its view has elements");
  if (view.bits % byteWidth(view.type) != 0)
    return invalid("must be aligned to the " + std::to_string(byteWidth(view.type)) +
                   " bytes of its elements");
  return Status::success();
}

Status checkArgument(const ArgumentSpec &spec, const Argument &argument, const std::string &where) {
  auto invalid = [&](const std::string &what) {
    return Status::failure(Code::InvalidArgument, where + " " + what);
  };
  if (argument.kind == Argument::Kind::Absent)
    return spec.isOptional ? Status::success()
                           : invalid("is missing; it is not an optional argument");
  if (spec.isView && argument.kind != Argument::Kind::View)
    return invalid("must be a view, but got a scalar");
  if (spec.isView)
    return checkView(spec, argument, where);
  if (argument.kind != Argument::Kind::Scalar)
    return invalid("must be a scalar, but got a view");
  if (argument.type != spec.type)
    return invalid("must be a scalar of type " + typeName(spec.type) + ", but got " +
                   typeName(argument.type));
  return Status::success();
}

Refusal findViewRefusal(const ViewRequirement &requirement, const Argument &view) {
  using Reason = Refusal::Reason;
  if (view.kind != Argument::Kind::View || isEmpty(view))
    return Refusal();
  int64_t alignment = requirement.alignment;
  if (view.bits % uint64_t(alignment) != 0)
    return {Reason::Address, requirement.argument, 0, alignment};
  // The stride of a dimension of one element moves nothing.
  for (unsigned i = 0; i < view.rank; ++i) {
    if (view.extents[i] == 1)
      continue;
    if (i + 1 == view.rank) {
      if (requirement.isUnitInner && view.strides[i] != 1)
        return {Reason::Inner, requirement.argument, i, alignment};
    } else if (uint64_t(view.strides[i]) * byteWidth(view.type) % uint64_t(alignment) != 0) {
      // Unsigned, as strides may be anything, and alignments are powers of two.
      return {Reason::Stride, requirement.argument, i, alignment};
    }
  }
  return Refusal();
}

/// As findViewRefusal; where it is false, that has the answer.
bool isMet(const ViewRequirement &requirement, const Argument &view) {
  if (view.kind != Argument::Kind::View)
    return true;
  uint64_t bytes = view.bits, width = byteWidth(view.type);
  for (unsigned i = 0; i + 1 < view.rank; ++i)
    bytes |= view.extents[i] == 1 ? 0 : uint64_t(view.strides[i]) * width;
  if (bytes & uint64_t(requirement.alignment - 1))
    return false;
  unsigned inner = view.rank - 1u;
  return !requirement.isUnitInner || view.rank == 0 || view.strides[inner] == 1 ||
         view.extents[inner] == 1;
}

Refusal findMapRefusal(const TensorMapSpec &map, const Argument &view) {
  using Reason = Refusal::Reason;
  if (view.kind != Argument::Kind::View || isEmpty(view))
    return Refusal();
  int64_t width = int64_t(byteWidth(view.type));
  if (view.bits % 16 != 0)
    return {Reason::MapAddress, map.argument, 0, 16};
  // Loads fill with zeros element by element; stores write the chunk that holds the end of a row.
  if (map.isStored && view.extents[view.rank - 1] * width % 16 != 0)
    return {Reason::MapRow, map.argument, view.rank - 1, view.extents[view.rank - 1] * width};
  for (unsigned i = 0; i < view.rank; ++i) {
    int64_t stride = view.strides[i];
    if (view.extents[i] == 1)
      continue;
    if (i + 1 == view.rank) {
      if (stride != 1)
        return {Reason::MapInner, map.argument, i, 0};
    } else if (stride < 0 || stride >= maxMapStride / width) {
      return {Reason::MapStrideSign, map.argument, i, 0};
    } else if (stride * width % 16 != 0) {
      return {Reason::MapStride, map.argument, i, 16};
    }
  }
  if (map.ragged >= 0) {
    auto dim = unsigned(map.ragged);
    if (view.extents[dim] > raggedBound)
      return {Reason::MapRaggedRows, map.argument, dim, raggedBound};
    if (view.extents[dim] > 1 && view.strides[dim] * width >= raggedTurn)
      return {Reason::MapRaggedStride, map.argument, dim, raggedTurn};
  }
  return Refusal();
}

/// Where each parameter of a launch lies, as the driver wants it.
struct PackedParams {
  alignas(tensorMapAlignment) unsigned char bytes[maxParamBytes];
  void *pointers[maxParams];
};

/// Puts values one behind the other, each where its parameter lies.
class Packer {
public:
  Packer(const ParamLayout &layout, PackedParams &packed)
      : param(layout.params.data()), bytes(packed.bytes), pointer(packed.pointers) {}

  template <typename T> void put(T value) { std::memcpy(next(), &value, sizeof(T)); }
  void *next() { return *pointer++ = bytes + param++->offset; }

private:
  const ParamLayout::Param *param;
  unsigned char *bytes;
  void **pointer;
};

Status pack(const DriverTable &driver, const PreparedKernel &prepared,
            const Argument *const *arguments, PackedParams &packed) {
  const KernelSpec &kernel = *prepared.spec;
  Packer packer(kernel.layout, packed);
  const Argument *const *next = arguments;
  for (const ContractCheck::Row &row : prepared.contract.arguments()) {
    const Argument &argument = **next++;
    if (!row.isView) {
      // The bits are in the low bytes, and machines with GPUs are little-endian.
      if (row.alignment == 4)
        packer.put(uint32_t(argument.bits));
      else
        std::memcpy(packer.next(), &argument.bits, row.alignment);
      continue;
    }
    packer.put(argument.bits); // an absent one is all zero
    for (unsigned dim = 0; dim < row.rank; ++dim)
      packer.put(int32_t(argument.extents[dim]));
    for (unsigned dim = 0; dim < row.rank; ++dim)
      packer.put(argument.strides[dim]);
  }
  TensorMapCache *cache = prepared.maps.get();
  for (const TensorMapSpec &spec : kernel.tensorMaps) {
    auto &map = *static_cast<cuda::TensorMap *>(packer.next());
    const Argument &view = *arguments[spec.argument];
    TensorMapCache &kept = *cache++;
    if (kept.find(view, map))
      continue;
    if (Status status = encodeTensorMap(driver, spec, kernel.arguments[spec.argument], view, map);
        !status)
      return status;
    kept.keep(view, map);
  }
  return Status::success();
}

Status checkGrid(const KernelSpec &kernel, unsigned axis, int64_t extent) {
  static const char *const axes[] = {"x", "y", "z"};
  int64_t limit = axis == 0 ? cuda::maxGridX : cuda::maxGridYZ;
  if (extent >= 0 && extent <= limit)
    return Status::success();
  std::string message = "the grid of kernel '" + kernel.name + "' has " + std::to_string(extent) +
                        " blocks along " + axes[axis] + "; the limit is " + std::to_string(limit);
  if (axis > 0)
    message += ", so the compiler must linearise this axis into x";
  return Status::failure(Code::Unsupported, message);
}

} // namespace

Status tilewright::runtime::checkArguments(const std::vector<ArgumentSpec> &contract,
                                           const Argument *const *arguments, size_t numArguments,
                                           const char *owner, const std::string &name) {
  if (numArguments != contract.size())
    return Status::failure(Code::InvalidArgument, std::string(owner) + " '" + name + "' takes " +
                                                      std::to_string(contract.size()) +
                                                      " arguments, but got " +
                                                      std::to_string(numArguments));
  for (size_t i = 0; i < numArguments; ++i)
    if (Status status =
            checkArgument(contract[i], *arguments[i],
                          "argument '" + contract[i].name + "' of " + owner + " '" + name + "'");
        !status)
      return status;
  return Status::success();
}

ContractCheck::ContractCheck(const std::vector<ArgumentSpec> &contract) {
  for (const ArgumentSpec &spec : contract) {
    Row row = {spec.isView,
               spec.isOptional,
               spec.type,
               uint8_t(spec.extents.size()),
               uint32_t(byteWidth(spec.type)),
               {}};
    for (size_t i = 0; i < spec.extents.size(); ++i)
      row.extents[i] = int32_t(spec.extents[i]);
    rows.push_back(row);
  }
}

bool ContractCheck::accepts(const Argument *const *arguments, size_t numArguments) const {
  if (numArguments != rows.size())
    return false;
  for (const Row &row : rows) {
    const Argument &argument = **arguments++;
    if (argument.kind == Argument::Kind::Absent) {
      if (!row.isOptional)
        return false;
      continue;
    }
    if ((argument.kind == Argument::Kind::View) != row.isView || argument.type != row.type)
      return false;
    if (!row.isView)
      continue;
    if (argument.rank != row.rank)
      return false;
    bool isEmptyView = false;
    for (unsigned i = 0; i < row.rank; ++i) {
      int64_t extent = argument.extents[i];
      if (uint64_t(extent) > uint64_t(maxExtent) ||
          (row.extents[i] >= 0 && extent != row.extents[i]))
        return false;
      isEmptyView |= extent == 0;
    }
    if (!isEmptyView && (argument.bits == 0 || (argument.bits & (row.alignment - 1)) != 0))
      return false;
  }
  return true;
}

PreparedKernel::PreparedKernel(const KernelSpec &spec, cuda::Function function)
    : spec(&spec), function(function), contract(spec.arguments),
      conditions(ExprCode::ofConditions(spec.conditions, spec.arguments)) {
  for (const Expr &extent : spec.grid)
    grid.push_back(ExprCode::ofInteger(extent, spec.arguments));
  if (!spec.tensorMaps.empty())
    maps = std::make_unique<TensorMapCache[]>(spec.tensorMaps.size());
}

std::string Refusal::toString(const KernelSpec &kernel, const Argument *const *arguments) const {
  if (reason == Reason::Condition)
    return "its condition '" + kernel.conditions[argument].toString() + "' does not hold";
  std::string view = "'" + kernel.arguments[argument].name + "'";
  std::string stride = "the stride " + std::to_string(arguments[argument]->strides[dim]) +
                       " along dimension " + std::to_string(dim) + " of " + view;
  switch (reason) {
  case Reason::Address:
    return view + " must be aligned to " + std::to_string(limit) + " bytes";
  case Reason::Stride:
    return stride + " must be a multiple of " + std::to_string(limit) + " bytes";
  case Reason::Inner:
    return stride + " must be 1";
  case Reason::MapAddress:
    return view + " must be aligned to 16 bytes for a tensor map";
  case Reason::MapRow:
    return "the rows of " + view + ", " + std::to_string(limit) +
           " bytes, must be a multiple of 16 bytes for a tensor map that is stored through";
  case Reason::MapStride:
    return stride + " must be a multiple of 16 bytes for a tensor map";
  case Reason::MapStrideSign:
    return stride + " must be from 0 to 2^40 bytes for a tensor map";
  case Reason::MapInner:
    return stride + " must be 1 for a tensor map";
  case Reason::MapRaggedRows:
    return "dimension " + std::to_string(dim) + " of " + view + " must be at most " +
           std::to_string(limit) + " for a ragged tensor map, but is " +
           std::to_string(arguments[argument]->extents[dim]);
  case Reason::MapRaggedStride:
    return stride + " must be less than " + std::to_string(limit) +
           " bytes for a ragged tensor map";
  default:
    return "nothing";
  }
}

bool tilewright::runtime::isUsable(const PreparedKernel &prepared, const ExprInputs &inputs) {
  const KernelSpec &kernel = *prepared.spec;
  for (const ViewRequirement &requirement : kernel.requirements)
    if (!isMet(requirement, *inputs.arguments[requirement.argument]))
      return false;
  for (const TensorMapSpec &map : kernel.tensorMaps)
    if (findMapRefusal(map, *inputs.arguments[map.argument]).reason != Refusal::Reason::None)
      return false;
  return prepared.conditions.allHold(inputs);
}

Status tilewright::runtime::findRefusal(const KernelSpec &kernel, const ExprInputs &inputs,
                                        Refusal &refusal) {
  refusal = Refusal();
  for (const ViewRequirement &requirement : kernel.requirements) {
    refusal = findViewRefusal(requirement, *inputs.arguments[requirement.argument]);
    if (refusal.reason != Refusal::Reason::None)
      return Status::success();
  }
  for (const TensorMapSpec &map : kernel.tensorMaps) {
    refusal = findMapRefusal(map, *inputs.arguments[map.argument]);
    if (refusal.reason != Refusal::Reason::None)
      return Status::success();
  }
  for (size_t i = 0; i < kernel.conditions.size(); ++i) {
    bool holds = false;
    if (Status status = kernel.conditions[i].evaluateCondition(inputs, holds); !status)
      return status;
    if (!holds) {
      refusal = {Refusal::Reason::Condition, uint32_t(i), 0, 0};
      return Status::success();
    }
  }
  return Status::success();
}

Status tilewright::runtime::launchKernel(const DriverTable &driver, const PreparedKernel &prepared,
                                         const ExprInputs &inputs, cuda::Stream stream) {
  const KernelSpec &kernel = *prepared.spec;
  unsigned grid[3] = {1, 1, 1};
  bool empty = false;
  for (unsigned axis = 0; axis < kernel.grid.size(); ++axis) {
    int64_t extent = 0;
    if (!prepared.grid[axis].evaluate(inputs, extent))
      if (Status status = kernel.grid[axis].evaluateInteger(inputs, extent); !status)
        return status;
    if (Status status = checkGrid(kernel, axis, extent); !status)
      return status;
    grid[axis] = unsigned(extent);
    empty |= extent == 0;
    if (extent % kernel.cluster[axis] != 0)
      return Status::failure(Code::InvalidArgument,
                             "the grid of kernel '" + kernel.name + "' has " +
                                 std::to_string(extent) + " blocks along axis " +
                                 std::to_string(axis) + ", no multiple of its clusters of " +
                                 std::to_string(kernel.cluster[axis]));
  }
  if (empty)
    return Status::success();

  PackedParams packed;
  if (Status status = pack(driver, prepared, inputs.arguments, packed); !status)
    return status;

  bool hasCluster = kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2] > 1;
  cuda::Result result;
  if (hasCluster) {
    cuda::LaunchAttribute cluster = {};
    cluster.id = cuda::launchAttributeClusterDimension;
    cluster.value.clusterDim = {kernel.cluster[0], kernel.cluster[1], kernel.cluster[2]};
    cuda::LaunchConfig config = {grid[0],
                                 grid[1],
                                 grid[2],
                                 kernel.block[0],
                                 kernel.block[1],
                                 kernel.block[2],
                                 kernel.sharedBytes,
                                 stream,
                                 &cluster,
                                 1};
    result = driver.cuLaunchKernelEx(&config, prepared.function, packed.pointers, nullptr);
  } else {
    result = driver.cuLaunchKernel(prepared.function, grid[0], grid[1], grid[2], kernel.block[0],
                                   kernel.block[1], kernel.block[2], kernel.sharedBytes, stream,
                                   packed.pointers, nullptr);
  }
  if (result != cuda::Success)
    return driver.check(result, hasCluster ? "cuLaunchKernelEx" : "cuLaunchKernel",
                        "launch kernel '" + kernel.name + "' on a grid of " +
                            std::to_string(grid[0]) + " x " + std::to_string(grid[1]) + " x " +
                            std::to_string(grid[2]));
  return Status::success();
}

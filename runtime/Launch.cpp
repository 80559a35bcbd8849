// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Sets `rejection` if the view does not satisfy the requirements.
bool isRejected(const ViewRequirement &requirement, const Argument &view, Rejection &rejection) {
  using Reason = Rejection::Reason;
  if (view.kind != Argument::Kind::View)
    return false;
  const uint64_t mask = uint64_t(requirement.alignment) - 1, width = byteWidth(view.type);
  auto reject = [&](Reason reason, unsigned dim) {
    if (!isEmpty(view))
      rejection = {reason, requirement.argument, dim, requirement.alignment, {}};
    return rejection.reason != Reason::None;
  };
  if (view.bits & mask)
    return reject(Reason::Address, 0);
  // The stride of a dimension of one element has no effect.
  const uint32_t inner = uint32_t(view.rank) - 1;
  for (unsigned i = 0; i + 1 < view.rank; ++i) // unsigned, since strides are arbitrary
    if ((uint64_t(view.strides[i]) * width & mask) != 0 && view.extents[i] != 1)
      return reject(Reason::Stride, i);
  if (requirement.isUnitInner && view.rank != 0 && view.strides[inner] != 1 &&
      view.extents[inner] != 1)
    return reject(Reason::Inner, inner);
  return false;
}

/// The same for a tensor map.
bool isRejected(const TensorMapSpec &map, const Argument &view, Rejection &rejection) {
  using Reason = Rejection::Reason;
  if (view.kind != Argument::Kind::View || isEmpty(view))
    return false;
  auto reject = [&](Reason reason, unsigned dim, int64_t limit) {
    rejection = {reason, map.argument, dim, limit, {}};
    return true;
  };
  int64_t width = int64_t(byteWidth(view.type));
  if (view.bits % 16 != 0)
    return reject(Reason::MapAddress, 0, 16);
  // Loads fill with zeros element by element; stores write the whole chunk that contains the end of
  // a row.
  if (map.isStored && view.extents[view.rank - 1] * width % 16 != 0)
    return reject(Reason::MapRow, view.rank - 1u, view.extents[view.rank - 1] * width);
  for (unsigned i = 0; i < view.rank; ++i) {
    int64_t stride = view.strides[i];
    // The stride of rows counts even for pages of one row.
    if (view.extents[i] == 1 && !(map.isPaged && i == 1 && view.extents[0] > 1))
      continue;
    if (i + 1 == view.rank) {
      if (stride != 1)
        return reject(Reason::MapInner, i, 0);
    } else if (stride < 0 || stride >= maxMapStride / width) {
      return reject(Reason::MapStrideSign, i, 0);
    } else if (stride * width % 16 != 0) {
      return reject(Reason::MapStride, i, 16);
    }
  }
  if (map.ragged >= 0) {
    auto dim = unsigned(map.ragged);
    if (view.extents[dim] > raggedBound)
      return reject(Reason::MapRaggedRows, dim, raggedBound);
    if (view.extents[dim] > 1 && view.strides[dim] * width >= raggedTurn)
      return reject(Reason::MapRaggedStride, dim, raggedTurn);
  }
  if (map.isPaged && view.extents[0] > 1) {
    int64_t rows = view.strides[1];
    if (rows == 0 || view.strides[0] % rows != 0 ||
        view.strides[0] / rows > (raggedBound - view.extents[1]) / (view.extents[0] - 1))
      return reject(Reason::MapPages, 0, raggedBound);
  }
  return false;
}

/// The parameters of a launch with their addresses, as the driver takes them.
struct PackedParams {
  alignas(tensorMapAlignment) unsigned char bytes[maxParamBytes];
  void *pointers[maxParams];
};

/// Writes values one after the other, each at the offset of its parameter.
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
    packer.put(argument.bits); // all zero if absent
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
    message += ", so the compiler must linearize this axis into x";
  return Status::failure(Code::Unsupported, message);
}

} // namespace

ContractCheck::ContractCheck(const std::vector<ArgumentSpec> &contract) : contract(&contract) {
  for (const ArgumentSpec &spec : contract) {
    Row row = {spec.isView,
               spec.isOptional,
               spec.isWritten,
               spec.type,
               uint8_t(spec.extents.size()),
               uint32_t(byteWidth(spec.type)),
               {}};
    for (size_t i = 0; i < spec.extents.size(); ++i)
      row.extents[i] = int32_t(spec.extents[i]);
    rows.push_back(row);
  }
}

namespace {

/// Whether elements of a view that is not empty may share memory: by increasing stride, that of
/// each dimension must exceed the span of the previous ones. `dim` is the first that does not, and
/// `least` the stride that it would need.
bool isOverlapping(const Argument &view, unsigned &dim, int64_t &least) {
  constexpr uint64_t most = std::numeric_limits<int64_t>::max();
  auto size = [&](unsigned i) {
    uint64_t stride = uint64_t(view.strides[i]);
    return view.strides[i] < 0 ? 0 - stride : stride;
  };
  unsigned order[maxRank];
  unsigned count = 0;
  for (unsigned i = view.rank; i-- > 0;) {
    if (view.extents[i] == 1)
      continue;
    unsigned at = count++;
    for (; at > 0 && size(order[at - 1]) > size(i); --at)
      order[at] = order[at - 1];
    order[at] = i;
  }
  uint64_t span = 1;
  for (unsigned at = 0; at < count; ++at) {
    dim = order[at];
    least = int64_t(span);
    uint64_t reach;
    if (size(dim) < span ||
        __builtin_mul_overflow(size(dim), uint64_t(view.extents[dim] - 1), &reach) ||
        __builtin_add_overflow(span, reach, &span) || span > most)
      return true;
  }
  return false;
}

/// The error of an argument.
enum class Flaw { None, Missing, Kind, Type, Rank, Range, Extent, Null, Alignment, Overlap };

/// `dim` is the dimension of a wrong extent.
inline Flaw findFlaw(const ContractCheck::Row &row, const Argument &argument, unsigned &dim) {
  if (argument.kind == Argument::Kind::Absent)
    return row.isOptional ? Flaw::None : Flaw::Missing;
  if ((argument.kind == Argument::Kind::View) != row.isView)
    return Flaw::Kind;
  if (argument.type != row.type)
    return Flaw::Type;
  if (!row.isView)
    return Flaw::None;
  if (argument.rank != row.rank)
    return Flaw::Rank;
  bool isEmptyView = false;
  for (unsigned i = 0; i < row.rank; ++i) {
    int64_t extent = argument.extents[i];
    if (uint64_t(extent) > uint64_t(maxExtent))
      return dim = i, Flaw::Range;
    if (row.extents[i] >= 0 && extent != row.extents[i])
      return dim = i, Flaw::Extent;
    isEmptyView |= extent == 0;
  }
  if (isEmptyView)
    return Flaw::None;
  if (argument.bits == 0)
    return Flaw::Null;
  if (argument.bits & (row.alignment - 1))
    return Flaw::Alignment;
  int64_t least;
  return row.isWritten && isOverlapping(argument, dim, least) ? Flaw::Overlap : Flaw::None;
}

/// `where` names the argument.
Status explain(Flaw flaw, const ContractCheck::Row &row, const Argument &argument, unsigned dim,
               const std::string &where) {
  auto invalid = [&](const std::string &what) {
    return Status::failure(Code::InvalidArgument, where + " " + what);
  };
  switch (flaw) {
  case Flaw::None:
    break;
  case Flaw::Missing:
    return invalid("is missing; it is not an optional argument");
  case Flaw::Kind:
    return invalid(row.isView ? "must be a view, but got a scalar"
                              : "must be a scalar, but got a view");
  case Flaw::Type:
    return invalid((row.isView ? "must have element type " : "must be a scalar of type ") +
                   typeName(row.type) + ", but got " + typeName(argument.type));
  case Flaw::Rank:
    return invalid("must have rank " + std::to_string(row.rank) + ", but got rank " +
                   std::to_string(argument.rank));
  case Flaw::Range:
    return invalid("has extent " + std::to_string(argument.extents[dim]) + " along dimension " +
                   std::to_string(dim) + ", which must be from 0 to 2147483647");
  case Flaw::Extent:
    return invalid("must have extent " + std::to_string(row.extents[dim]) + " along dimension " +
                   std::to_string(dim) + ", but got " + std::to_string(argument.extents[dim]));
  case Flaw::Null:
    return invalid("is a null pointer, but its view has elements");
  case Flaw::Overlap: {
    int64_t least = 0;
    isOverlapping(argument, dim, least);
    return invalid("must have elements that share no memory, since they are written, but got the "
                   "stride " +
                   std::to_string(argument.strides[dim]) + " along dimension " +
                   std::to_string(dim) + ", where at least " + std::to_string(least) +
                   " is needed; pass an array of its own for each");
  }
  case Flaw::Alignment:
    return invalid("must begin at a multiple of the " + std::to_string(row.alignment) +
                   " bytes of its elements, but got an address with the remainder " +
                   std::to_string(argument.bits % row.alignment));
  }
  return Status::success();
}

} // namespace

bool ContractCheck::accepts(const Argument *const *arguments, size_t numArguments) const {
  unsigned unused;
  if (numArguments != rows.size())
    return false;
  for (const Row &row : rows)
    if (findFlaw(row, **arguments++, unused) != Flaw::None)
      return false;
  return true;
}

Status ContractCheck::reject(const Argument *const *arguments, size_t numArguments,
                             const char *owner, const std::string &name) const {
  if (numArguments != rows.size())
    return Status::failure(Code::InvalidArgument, std::string(owner) + " '" + name + "' takes " +
                                                      std::to_string(rows.size()) +
                                                      " arguments, but got " +
                                                      std::to_string(numArguments));
  for (size_t i = 0; i < numArguments; ++i) {
    unsigned dim = 0;
    if (Flaw flaw = findFlaw(rows[i], *arguments[i], dim); flaw != Flaw::None)
      return explain(flaw, rows[i], *arguments[i], dim,
                     "argument '" + (*contract)[i].name + "' of " + owner + " '" + name + "'");
  }
  return Status::success();
}

PreparedKernel::PreparedKernel(const KernelSpec &spec, const CodeSpec &code,
                               const LoadedKernel &loaded, bool mayStartEarly)
    : spec(&spec), code(&code), loaded(loaded), mayStartEarly(mayStartEarly),
      contract(spec.arguments), conditions(spec.conditions, spec.arguments) {
  for (const Expr &extent : spec.grid)
    grid.emplace_back(extent, spec.arguments);
  if (!spec.tensorMaps.empty())
    maps = std::make_unique<TensorMapCache[]>(spec.tensorMaps.size());
}

std::string Rejection::toString(const KernelSpec &kernel, const ExprInputs &inputs) const {
  const Argument *const *arguments = inputs.arguments;
  if (reason == Reason::Condition)
    return ExprCode::describe(condition, inputs);
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
  case Reason::MapPages:
    return stride +
           " must be a multiple of the stride of its rows, dimension 1, and the pages must "
           "lie within " +
           std::to_string(limit) + " rows, for a tensor map of pages";
  default:
    return "nothing";
  }
}

bool tilewright::runtime::isUsable(const PreparedKernel &prepared, const ExprInputs &inputs,
                                   Rejection &rejection) {
  const KernelSpec &kernel = *prepared.spec;
  for (const ViewRequirement &requirement : kernel.requirements)
    if (isRejected(requirement, *inputs.arguments[requirement.argument], rejection))
      return false;
  for (const TensorMapSpec &map : kernel.tensorMaps)
    if (isRejected(map, *inputs.arguments[map.argument], rejection))
      return false;
  ExprCode::End end = prepared.conditions.findBroken(inputs);
  if (!end.expr)
    return true;
  rejection = {Rejection::Reason::Condition, 0, 0, 0, end};
  return false;
}

bool tilewright::runtime::canDescribe(const TensorMapSpec &map, const Argument &view,
                                      Rejection &rejection) {
  return !isRejected(map, view, rejection);
}

Status tilewright::runtime::gridOf(const PreparedKernel &prepared, const ExprInputs &inputs,
                                   unsigned (&grid)[3], bool &isEmpty) {
  const KernelSpec &kernel = *prepared.spec;
  std::fill_n(grid, 3, 1u);
  isEmpty = false;
  for (unsigned axis = 0; axis < kernel.grid.size(); ++axis) {
    int64_t extent = 0;
    if (Status status = prepared.grid[axis].evaluate(inputs, extent); !status)
      return status;
    if (Status status = checkGrid(kernel, axis, extent); !status)
      return status;
    grid[axis] = unsigned(extent);
    isEmpty |= extent == 0;
    if (extent % kernel.cluster[axis] != 0)
      return Status::failure(Code::InvalidArgument,
                             "the grid of kernel '" + kernel.name + "' along axis " +
                                 std::to_string(axis) + " must be a multiple of its clusters of " +
                                 std::to_string(kernel.cluster[axis]) + " blocks, but got " +
                                 std::to_string(extent));
  }
  return Status::success();
}

/// Whether a multiprocessor has room for that many blocks beside another one.
static bool fit(int64_t count, const Resources &own, const Resources &beside,
                const Resources &multiprocessor) {
  return count * own.registers + beside.registers <= multiprocessor.registers &&
         count * own.threads + beside.threads <= multiprocessor.threads &&
         count * own.sharedBytes + beside.sharedBytes <= multiprocessor.sharedBytes;
}

/// How many blocks of a launch have room on the multiprocessors that those of the last one leave, a
/// few on each, if these are at least half of all: on few, they take longer than later on all.
static int64_t getRoomApart(const LastLaunch &last, const PreparedKernel &kernel,
                            int64_t multiprocessors) {
  constexpr int64_t most = 4;
  const Resources none, &own = kernel.loaded.block;
  int64_t free = multiprocessors - last.blocks, each = 0;
  if (2 * free < multiprocessors || !own.areKnown())
    return 0;
  while (each < most && fit(each + 1, own, none, kernel.loaded.multiprocessor))
    ++each;
  return free * each;
}

/// The additional shared memory with which the blocks of a launch spread evenly over what those of
/// the last one leave of the multiprocessors, if that is possible.
static std::optional<uint32_t> spreadBeside(const LastLaunch &last, const PreparedKernel &kernel,
                                            int64_t blocks, int64_t multiprocessors) {
  constexpr int64_t unit = 1024;
  const Resources none, &all = kernel.loaded.multiprocessor, &other = last.kernel->loaded.block;
  Resources own = kernel.loaded.block;
  if (last.blocks > multiprocessors || !other.areKnown())
    return std::nullopt;
  if (!fit(1, own, other, all)) // nothing fits if it is not known what a block of this kernel takes
    return std::nullopt;
  int64_t more = std::min<int64_t>(all.sharedBytes - other.sharedBytes - own.sharedBytes,
                                   kernel.loaded.mostShared - kernel.spec->sharedBytes) /
                 unit * unit;
  own.sharedBytes += more;
  int64_t room = last.blocks + (fit(2, own, none, all) ? 2 : 1) * (multiprocessors - last.blocks);
  if (fit(2, own, other, all) || fit(3, own, none, all) || blocks > room)
    return std::nullopt;
  return uint32_t(more);
}

std::optional<uint32_t> tilewright::runtime::findOverlap(const LastLaunch &last,
                                                         const PreparedKernel &kernel,
                                                         int64_t blocks, int64_t multiprocessors) {
  bool allows = last.kernel ? last.kernel->spec->allowsLaunch : last.mayOverlapOther;
  if (!allows || !kernel.mayStartEarly)
    return std::nullopt;
  if (!last.kernel || last.blocks + blocks <= multiprocessors ||
      blocks <= getRoomApart(last, kernel, multiprocessors))
    return 0;
  return spreadBeside(last, kernel, blocks, multiprocessors);
}

Status tilewright::runtime::launchKernel(const DriverTable &driver, const PreparedKernel &prepared,
                                         const ExprInputs &inputs, cuda::Stream stream,
                                         LastLaunch &last) {
  const KernelSpec &kernel = *prepared.spec;
  unsigned grid[3];
  bool isEmpty;
  if (Status status = gridOf(prepared, inputs, grid, isEmpty); !status)
    return status;
  if (isEmpty)
    return Status::success();

  PackedParams packed;
  if (Status status = pack(driver, prepared, inputs.arguments, packed); !status)
    return status;

  cuda::LaunchAttribute attributes[2] = {};
  unsigned numAttributes = 0;
  if (kernel.clusterBlocks() > 1) {
    cuda::LaunchAttribute &cluster = attributes[numAttributes++];
    cluster.id = cuda::launchAttributeClusterDimension;
    cluster.value.clusterDim = {kernel.cluster[0], kernel.cluster[1], kernel.cluster[2]};
  }
  int64_t blocks = int64_t(grid[0]) * grid[1] * grid[2];
  std::optional<uint32_t> moreShared = findOverlap(last, prepared, blocks, inputs.smCount);
  if (moreShared) {
    cuda::LaunchAttribute &serialization = attributes[numAttributes++];
    serialization.id = cuda::launchAttributeProgrammaticSerialization;
    serialization.value.programmaticSerialization = 1;
  }
  last = {&prepared, blocks, false};
  unsigned sharedBytes = kernel.sharedBytes + moreShared.value_or(0);
  cuda::Result result;
  if (numAttributes > 0) {
    cuda::LaunchConfig config = {grid[0],         grid[1],         grid[2],     kernel.block[0],
                                 kernel.block[1], kernel.block[2], sharedBytes, stream,
                                 attributes,      numAttributes};
    result = driver.cuLaunchKernelEx(&config, prepared.loaded.function, packed.pointers, nullptr);
  } else {
    result = driver.cuLaunchKernel(prepared.loaded.function, grid[0], grid[1], grid[2],
                                   kernel.block[0], kernel.block[1], kernel.block[2], sharedBytes,
                                   stream, packed.pointers, nullptr);
  }
  if (result != cuda::Success)
    return driver.check(result, numAttributes > 0 ? "cuLaunchKernelEx" : "cuLaunchKernel",
                        "launch kernel '" + kernel.name + "' on a grid of " +
                            std::to_string(grid[0]) + " x " + std::to_string(grid[1]) + " x " +
                            std::to_string(grid[2]));
  return Status::success();
}

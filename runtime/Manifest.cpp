// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks a manifest, whether it was read or built, and its parts.

#include "runtime/Manifest.h"

#include "base/Abi/TensorMapRank.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

Status bad(std::string message) { return Status::failure(Code::BadBundle, std::move(message)); }

Status checkArguments(const std::vector<ArgumentSpec> &arguments, const std::string &owner) {
  if (arguments.size() > maxArguments)
    return bad(owner + " has " + std::to_string(arguments.size()) + " arguments; the limit is " +
               std::to_string(maxArguments));
  std::set<std::string> names;
  for (const ArgumentSpec &argument : arguments) {
    if (!names.insert(argument.name).second)
      return bad("the names of the arguments of " + owner + " must differ, but got '" +
                 argument.name + "' twice");
    if (argument.extents.size() > maxRank)
      return bad("argument '" + argument.name + "' of " + owner + " has rank " +
                 std::to_string(argument.extents.size()) + "; the limit is " +
                 std::to_string(maxRank));
    for (int64_t extent : argument.extents)
      if (extent < -1 || extent > std::numeric_limits<int32_t>::max())
        return bad("argument '" + argument.name + "' of " + owner + " has the extent " +
                   std::to_string(extent) + ", which is not an i32");
    if (!argument.isView && argument.isOptional)
      return bad("argument '" + argument.name + "' of " + owner +
                 " must be a view to be optional, but got a scalar; give it a default instead");
    if (argument.isView && argument.byDefault)
      return bad("argument '" + argument.name + "' of " + owner +
                 " must be a scalar to have a default, but got a view; make it optional instead");
    if (argument.byDefault && (argument.byDefault->kind != Argument::Kind::Scalar ||
                               argument.byDefault->type != argument.type))
      return bad("the default of argument '" + argument.name + "' of " + owner +
                 " must be a scalar of " + std::string(elementTypeName(argument.type)) +
                 ", but got one of " + std::string(elementTypeName(argument.byDefault->type)));
    if (!argument.isView && argument.isWritten)
      return bad("argument '" + argument.name + "' of " + owner +
                 " must be a view to be written, but got a scalar");
  }
  return Status::success();
}

/// An argument in a message: its name and kind.
std::string describe(const std::vector<ArgumentSpec> &arguments, uint32_t place) {
  if (place >= arguments.size())
    return "argument " + std::to_string(place) + " of " + std::to_string(arguments.size());
  const ArgumentSpec &spec = arguments[place];
  return "'" + spec.name + "', a " + (spec.isView ? "view" : "scalar") + " of " +
         std::string(elementTypeName(spec.type)) +
         (spec.isView ? " of rank " + std::to_string(spec.extents.size()) : std::string());
}

Status checkIsView(const KernelSpec &kernel, uint32_t place, const std::string &which) {
  if (place < kernel.arguments.size() && kernel.arguments[place].isView)
    return Status::success();
  return bad(which + " must name a view, but got " + describe(kernel.arguments, place));
}

Status checkTensorMap(const TensorMapSpec &map, const KernelSpec &kernel,
                      const std::string &owner) {
  if (Status status = checkIsView(kernel, map.argument, "a tensor map of " + owner); !status)
    return status;
  const ArgumentSpec &view = kernel.arguments[map.argument];
  std::string where = "the tensor map over '" + view.name + "' of " + owner;
  if (view.extents.empty() || view.extents.size() > 5)
    return bad(where + " has rank " + std::to_string(view.extents.size()) +
               "; tensor maps have 1 to 5");
  if (map.box.size() != view.extents.size())
    return bad(where + " must have a box of rank " + std::to_string(view.extents.size()) +
               ", as its view, but got rank " + std::to_string(map.box.size()));
  if (view.type == ElementType::I1)
    return bad(where + " must have an element type of at least a byte, but got i1");
  for (uint32_t extent : map.box)
    if (extent == 0 || extent > 256)
      return bad(where + " has a box extent of " + std::to_string(extent) +
                 ", which must be 1 to 256");
  uint64_t inner = map.box.back() * byteWidth(view.type);
  if (inner % 16 != 0)
    return bad(where + " has a box of " + std::to_string(inner) +
               " bytes per row, which must be a multiple of 16");
  auto span = uint64_t(layout::panelBytes(map.swizzle)); // 0: any
  if (span != 0 && inner > span)
    return bad(where + " has a box of " + std::to_string(inner) +
               " bytes per row; its swizzle allows " + std::to_string(span));
  unsigned rank = unsigned(view.extents.size());
  bool leavesOutFirst = TensorMapRank::leavesOutFirst(rank);
  if (map.ragged >= 0 &&
      (unsigned(map.ragged) + 1 >= rank || rank > TensorMapRank::mostOfRaggedView ||
       (leavesOutFirst && map.ragged == 0)))
    return bad(where + " is ragged along dimension " + std::to_string(map.ragged) + " of " +
               std::to_string(rank) +
               "; the dimension must not be the last of 2 to 4 dimensions, nor the first of 4");
  if (map.ragged >= 0 && leavesOutFirst && map.box[0] != 1)
    return bad(where + " has a box of " + std::to_string(map.box[0]) +
               " elements along its first dimension; a ragged map of rank 4 omits that dimension "
               "and copies 1");
  if (map.isPaged && (map.ragged != 1 || map.box[0] != 1))
    return bad(where +
               " is paged, so it must be ragged along dimension 1 and its box must have 1 "
               "page, but is ragged along dimension " +
               std::to_string(map.ragged) + " and its box has " + std::to_string(map.box[0]));
  return Status::success();
}

Status finalizeElements(std::vector<ElementRuleSpec> &rules, const Params &params,
                        const std::vector<ArgumentSpec> &arguments, const std::string &owner) {
  for (ElementRuleSpec &rule : rules) {
    auto checkView = [&](uint32_t place, unsigned rank) {
      if (place < arguments.size()) {
        const ArgumentSpec &view = arguments[place];
        if (view.isView && (view.type == ElementType::I32 || view.type == ElementType::I64) &&
            (rank == 0 || view.extents.size() == rank))
          return Status::success();
      }
      return bad(owner + " uses '" + std::string(numeric::elementRuleName(rule.rule)) +
                 "', which requires a view of i32 or i64" +
                 (rank ? " of rank " + std::to_string(rank) : std::string()) + ", but got " +
                 describe(arguments, place));
    };
    if (Status status = checkView(rule.argument, numeric::elementRuleRank(rule.rule)); !status)
      return status;
    if (rule.rule == numeric::ElementRule::WithinFirst)
      if (Status status = checkView(rule.counts, 1); !status)
        return status;
    for (Expr *expr : {&rule.low, &rule.high, &rule.size})
      if (Status status = resolveExpr(*expr, expr::Kind::Integer, params, arguments, owner);
          !status)
        return status;
  }
  return Status::success();
}

/// Checks of a kernel or a program.
template <typename Spec> Status finalizeConstraints(Spec &spec, const std::string &owner) {
  for (Expr &condition : spec.conditions)
    if (Status status = resolveExpr(condition, expr::Kind::Flag, spec.params, spec.arguments, owner,
                                    /*isCondition=*/true);
        !status)
      return status;
  return finalizeElements(spec.elements, spec.params, spec.arguments, owner);
}

Status finalizeKernel(KernelSpec &kernel, size_t numBlobs) {
  std::string owner = "kernel '" + kernel.name + "'";
  if (Status status = checkArguments(kernel.arguments, owner); !status)
    return status;
  if (kernel.codes.empty())
    return bad(owner + " must have code, but got none");
  for (const CodeSpec &code : kernel.codes)
    if (code.blob >= numBlobs)
      return bad(owner + " names blob " + std::to_string(code.blob) + ", but the bundle has " +
                 std::to_string(numBlobs));
  if (kernel.grid.empty() || kernel.grid.size() > 3)
    return bad(owner + " has a grid of " + std::to_string(kernel.grid.size()) +
               " axes, which must be 1 to 3");
  uint64_t threads = uint64_t(kernel.block[0]) * kernel.block[1] * kernel.block[2];
  if (threads == 0 || threads > 1024 || kernel.block[0] > 1024 || kernel.block[1] > 1024)
    return bad(owner + " has blocks of " + std::to_string(threads) +
               " threads, which must be 1 to 1024");
  uint64_t cluster = uint64_t(kernel.cluster[0]) * kernel.cluster[1] * kernel.cluster[2];
  if (cluster == 0 || cluster > 16)
    return bad(owner + " has clusters of " + std::to_string(cluster) +
               " blocks, which must be 1 to 16");

  for (const ViewRequirement &requirement : kernel.requirements) {
    if (Status status = checkIsView(kernel, requirement.argument, "a requirement of " + owner);
        !status)
      return status;
    int64_t alignment = requirement.alignment;
    if (alignment < 1 || alignment > 4096 || (alignment & (alignment - 1)) != 0)
      return bad(owner + " requires an alignment of " + std::to_string(alignment) +
                 " bytes, which must be a power of two up to 4096");
  }
  if (kernel.tensorMaps.size() > maxTensorMaps)
    return bad(owner + " has " + std::to_string(kernel.tensorMaps.size()) +
               " tensor maps; the limit is " + std::to_string(maxTensorMaps));
  for (const TensorMapSpec &map : kernel.tensorMaps)
    if (Status status = checkTensorMap(map, kernel, owner); !status)
      return status;

  for (Expr &extent : kernel.grid)
    if (Status status =
            resolveExpr(extent, expr::Kind::Integer, kernel.params, kernel.arguments, owner);
        !status)
      return status;
  if (Status status = finalizeConstraints(kernel, owner); !status)
    return status;

  kernel.layout = ParamLayout();
  for (const ArgumentSpec &argument : kernel.arguments) {
    if (argument.isView)
      kernel.layout.addView(unsigned(argument.extents.size()));
    else
      kernel.layout.addScalar(argument.type);
  }
  for (size_t i = 0; i < kernel.tensorMaps.size(); ++i)
    kernel.layout.addTensorMap();
  if (kernel.layout.bytes > maxParamBytes || kernel.layout.params.size() > maxParams)
    return bad(owner + " takes " + std::to_string(kernel.layout.bytes) + " bytes in " +
               std::to_string(kernel.layout.params.size()) + " parameters; the limit is " +
               std::to_string(maxParamBytes) + " in " + std::to_string(maxParams));
  return Status::success();
}

Status finalizeLaunch(LaunchSpec &launch, const FormSpec &form, const ProgramSpec &program,
                      const Manifest &manifest, const std::string &owner) {
  if (launch.kernels.empty())
    return bad("a launch of " + owner + " must name a kernel, but got none");
  launch.sources.clear();
  for (const std::string &name : launch.arguments) {
    uint32_t source = 0;
    while (source < program.arguments.size() && program.arguments[source].name != name)
      ++source;
    if (source == program.arguments.size())
      for (const WorkspaceSpec &workspace : form.workspaces) {
        if (workspace.name == name)
          break;
        ++source;
      }
    if (source == program.arguments.size() + form.workspaces.size())
      return bad("a launch of " + owner + " passes '" + name +
                 "', which must be an argument or a workspace");
    launch.sources.push_back(source);
  }
  for (size_t index : launch.kernels) {
    if (index >= manifest.kernels.size())
      return bad("a launch of " + owner + " names kernel " + std::to_string(index) +
                 ", but the bundle has " + std::to_string(manifest.kernels.size()));
    const KernelSpec &kernel = manifest.kernels[index];
    if (kernel.arguments.size() != launch.arguments.size())
      return bad("a launch of " + owner + " must pass the " +
                 std::to_string(kernel.arguments.size()) + " arguments of kernel '" + kernel.name +
                 "', but got " + std::to_string(launch.arguments.size()));
    if (!kernel.hasCodeFor(form.target))
      return bad("a launch of " + owner + " in the form for " + form.target.toString() +
                 " names kernel '" + kernel.name + "', which must have code for this target");
    // A run checks arguments against the first variant and passes them to any.
    const KernelSpec &first = manifest.kernels[launch.kernels.front()];
    if (!haveOneContract(first.arguments, kernel.arguments))
      return bad("the variants of a launch of " + owner +
                 " must have the same arguments, but got others of entry '" + kernel.entry +
                 "' than of '" + first.entry + "'");
  }
  return Status::success();
}

Status finalizeForm(FormSpec &form, const ProgramSpec &program, const Manifest &manifest,
                    const std::string &owner) {
  Params params = program.params;
  params.insert(params.end(), form.params.begin(), form.params.end());
  auto resolve = [&](Expr &expr, expr::Kind kind, bool isCondition = false) {
    return resolveExpr(expr, kind, params, program.arguments, owner, isCondition);
  };
  for (Expr &condition : form.conditions)
    if (Status status = resolve(condition, expr::Kind::Flag, /*isCondition=*/true); !status)
      return status;
  if (form.workspaces.size() > maxArguments)
    return bad(owner + " has " + std::to_string(form.workspaces.size()) +
               " workspaces; the limit is " + std::to_string(maxArguments));
  std::set<std::string> names;
  for (const ArgumentSpec &argument : program.arguments)
    names.insert(argument.name);
  for (WorkspaceSpec &workspace : form.workspaces) {
    if (!names.insert(workspace.name).second)
      return bad("the names of the arguments and workspaces of " + owner +
                 " must differ, but got '" + workspace.name + "' twice");
    if (workspace.extents.size() > maxRank)
      return bad("workspace '" + workspace.name + "' of " + owner + " has rank " +
                 std::to_string(workspace.extents.size()) + "; the limit is " +
                 std::to_string(maxRank));
    for (Expr &extent : workspace.extents)
      if (Status status = resolve(extent, expr::Kind::Integer); !status)
        return status;
  }
  if (form.launches.size() > maxLaunches)
    return bad(owner + " has " + std::to_string(form.launches.size()) + " launches; the limit is " +
               std::to_string(maxLaunches));
  for (LaunchSpec &launch : form.launches) {
    if (launch.condition)
      if (Status status = resolve(*launch.condition, expr::Kind::Flag); !status)
        return status;
    if (Status status = finalizeLaunch(launch, form, program, manifest, owner); !status)
      return status;
  }
  return Status::success();
}

Status finalizeProgram(ProgramSpec &program, const Manifest &manifest) {
  std::string owner = "program '" + program.name + "'";
  if (Status status = checkArguments(program.arguments, owner); !status)
    return status;
  if (Status status = finalizeConstraints(program, owner); !status)
    return status;
  if (program.forms.empty())
    return bad(owner + " must have a form, but got none");
  for (FormSpec &form : program.forms)
    if (Status status = finalizeForm(form, program, manifest, owner); !status)
      return status;
  return Status::success();
}

} // namespace

bool tilewright::runtime::haveOneContract(const std::vector<ArgumentSpec> &a,
                                          const std::vector<ArgumentSpec> &b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i].name == b[i].name && a[i].isView == b[i].isView && a[i].type == b[i].type &&
           a[i].extents == b[i].extents && a[i].isOptional == b[i].isOptional &&
           a[i].byDefault.has_value() == b[i].byDefault.has_value() &&
           (!a[i].byDefault || a[i].byDefault->bits == b[i].byDefault->bits);
  return same;
}

std::optional<Arch> Arch::parse(const std::string &text) {
  if (text.size() < 5 || text.compare(0, 3, "sm_") != 0)
    return std::nullopt;
  std::string digits = text.substr(3);
  Arch arch;
  if (digits.back() == 'a') {
    arch.isExact = true;
    digits.pop_back();
  }
  if (digits.size() < 2 || digits.size() > 3 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  int number = std::atoi(digits.c_str());
  arch.major = number / 10;
  arch.minor = number % 10;
  return arch;
}

std::string Arch::toString() const {
  return "sm_" + std::to_string(major) + std::to_string(minor) + (isExact ? "a" : "");
}

bool KernelSpec::hasCodeFor(const Arch &target) const {
  return std::any_of(codes.begin(), codes.end(),
                     [&](const CodeSpec &code) { return code.arch == target; });
}

bool KernelSpec::acceptsWhateverDoes(const KernelSpec &other) const {
  return tensorMaps.empty() && requirements.empty() && isWithin(conditions, other.conditions);
}

bool tilewright::runtime::isWithin(const std::vector<Expr> &conditions,
                                   const std::vector<Expr> &others) {
  return std::all_of(conditions.begin(), conditions.end(), [&](const Expr &condition) {
    return std::find(others.begin(), others.end(), condition) != others.end();
  });
}

bool CodeSpec::runsOn(int major, int minor) const {
  if (arch.isExact)
    return major == arch.major && minor == arch.minor;
  if (kind == Kind::Cubin && major != arch.major)
    return false;
  return major > arch.major || (major == arch.major && minor >= arch.minor);
}

Status Manifest::finalize(size_t numBlobs) {
  for (KernelSpec &kernel : kernels)
    if (Status status = finalizeKernel(kernel, numBlobs); !status)
      return status;
  for (ProgramSpec &program : programs)
    if (Status status = finalizeProgram(program, *this); !status)
      return status;
  return Status::success();
}

std::optional<uint32_t> tilewright::runtime::fillPattern(ElementType type, double value) {
  switch (type) {
  case ElementType::F64: {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    if (uint32_t(bits) != uint32_t(bits >> 32))
      return std::nullopt;
    return uint32_t(bits);
  }
  case ElementType::F32: {
    float narrow = float(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    return bits;
  }
  case ElementType::F16:
    return numeric::doubleToF16(value) * 0x10001u;
  case ElementType::BF16:
    return numeric::doubleToBF16(value) * 0x10001u;
  case ElementType::E4M3:
    return numeric::doubleToE4M3(value) * 0x1010101u;
  case ElementType::E5M2:
    return numeric::doubleToE5M2(value) * 0x1010101u;
  case ElementType::I32:
    if (value < -2147483648.0 || value > 2147483647.0 || value != double(int32_t(value)))
      return std::nullopt;
    return uint32_t(int32_t(value));
  case ElementType::I64:
    if (value != 0 && value != -1)
      return std::nullopt;
    return value == 0 ? 0u : ~0u;
  case ElementType::I1:
    return value != 0 ? 0x1010101u : 0u;
  case ElementType::I8:
    if (value != double(int8_t(value)))
      return std::nullopt;
    return uint8_t(int8_t(value)) * 0x1010101u;
  }
  return std::nullopt;
}

Argument tilewright::runtime::realScalar(ElementType type, double value) {
  if (type == ElementType::F64)
    return Argument::scalar(value);
  uint32_t bits = fillPattern(type, value).value_or(0); // of narrower types, the element repeated
  return Argument::scalar(type, &bits);
}

double tilewright::runtime::realValue(const Argument &scalar) {
  switch (scalar.type) {
  case ElementType::F16:
    return numeric::f16ToFloat(uint16_t(scalar.bits));
  case ElementType::BF16:
    return numeric::bf16ToFloat(uint16_t(scalar.bits));
  case ElementType::E4M3:
    return numeric::e4m3ToFloat(uint8_t(scalar.bits));
  case ElementType::E5M2:
    return numeric::e5m2ToFloat(uint8_t(scalar.bits));
  default:
    return scalar.real();
  }
}

std::optional<Argument> tilewright::runtime::integerScalar(ElementType type, int64_t value) {
  if (type == ElementType::I64)
    return Argument::scalar(value);
  if (type == ElementType::I32 && value == int32_t(value))
    return Argument::scalar(int32_t(value));
  if (type == ElementType::I1 && (value == 0 || value == 1))
    return Argument::scalar(value != 0);
  return std::nullopt;
}

std::string ElementRuleSpec::toString(const std::vector<ArgumentSpec> &arguments) const {
  std::string text = std::string(numeric::elementRuleName(rule)) + "(" + arguments[argument].name;
  if (rule != numeric::ElementRule::Ascending)
    text += ", " + low.toString() + ", " + high.toString();
  if (rule == numeric::ElementRule::WithinFirst)
    text += ", " + arguments[counts].name + ", " + size.toString();
  return text + ")";
}

std::string tilewright::runtime::toString(const Params &params) {
  std::string text;
  for (const auto &param : params)
    text += (text.empty() ? "" : ", ") + param.first + " = " + param.second.toString();
  return text;
}

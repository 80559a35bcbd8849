// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a manifest from JSON. Every key is known; an unknown key belongs to another version, and is
// rejected.

#include "base/Abi/TimelineFormat.h"
#include "runtime/Manifest.h"

#include <algorithm>
#include <initializer_list>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

Status bad(std::string message) { return Status::failure(Code::BadBundle, std::move(message)); }

// Reading. The first failure is kept and later ones have no effect, so that the functions below
// have the structure of the text.
class Reader {
public:
  Status failure;

  void fail(const std::string &message) {
    if (failure.ok())
      failure = bad(message);
  }

  static const Json &null() {
    static const Json json;
    return json;
  }

  /// An object with only these keys.
  void expectKeys(const Json &json, const std::string &where,
                  std::initializer_list<const char *> keys) {
    if (json.kind != Json::Kind::Object)
      return fail(where + " must be an object, but got '" + json.quote() + "'");
    for (const auto &member : json.members)
      if (std::find(keys.begin(), keys.end(), member.first) == keys.end()) {
        std::string allowed;
        for (const char *key : keys)
          allowed += (allowed.empty() ? "" : ", ") + std::string(key);
        fail("the keys of " + where + " must be among " + allowed + ", but got '" + member.first +
             "'");
      }
  }
  const Json &required(const Json &json, const char *key, const std::string &where,
                       Json::Kind kind) {
    static const char *const kinds[] = {"null",     "true or false", "an integer", "a number",
                                        "a string", "a list",        "an object"};
    const Json *member = json.find(key);
    if (!member || member->kind != kind) {
      fail("'" + std::string(key) + "' of " + where + " must be " + kinds[unsigned(kind)] +
           ", but " + (member ? "got '" + member->quote() + "'" : "is missing"));
      return null();
    }
    return *member;
  }
  std::string text(const Json &json, const char *key, const std::string &where) {
    return required(json, key, where, Json::Kind::String).text;
  }
  /// An array of at most `limit` items: later checks take time per item.
  const std::vector<Json> &list(const Json &json, const char *key, const std::string &where,
                                size_t limit = SIZE_MAX) {
    const std::vector<Json> &items = required(json, key, where, Json::Kind::Array).items;
    if (items.size() <= limit)
      return items;
    fail("'" + std::string(key) + "' of " + where + " has " + std::to_string(items.size()) +
         " items; the limit is " + std::to_string(limit));
    return null().items;
  }
  const std::vector<Json> &optionalList(const Json &json, const char *key,
                                        const std::string &where) {
    return json.find(key) ? list(json, key, where) : null().items;
  }
  bool optionalFlag(const Json &json, const char *key, const std::string &where) {
    return json.find(key) && required(json, key, where, Json::Kind::Flag).truth;
  }
  /// An integer from 0 to `limit`.
  uint64_t count(const Json &json, const std::string &what, uint64_t limit) {
    if (json.kind != Json::Kind::Integer || json.number < 0 || uint64_t(json.number) > limit) {
      fail(what + " must be an integer from 0 to " + std::to_string(limit) + ", but got '" +
           json.quote() + "'");
      return 0;
    }
    return uint64_t(json.number);
  }
  ElementType elementType(const Json &json, const char *key, const std::string &where) {
    std::string name = text(json, key, where);
    std::optional<ElementType> type = parseElementType(name);
    if (!type)
      fail("'" + std::string(key) + "' of " + where +
           " must be an element type, such as f16, but got '" + name + "'");
    return type.value_or(ElementType::F32);
  }
  Expr expression(const Json &json) {
    Result<Expr> expr = parseExpr(json);
    if (expr)
      return *expr;
    fail(expr.status().message());
    return Expr();
  }

  Params params(const Json &json, const std::string &where) {
    Params params;
    for (const auto &member : required(json, "params", where, Json::Kind::Object).members) {
      params.emplace_back(member.first, expression(member.second));
      if (!params.back().second.isLiteral())
        fail("parameter '" + member.first + "' of " + where + " must be a literal, but got '" +
             member.second.quote() + "'");
    }
    return params;
  }

  /// A default; the writer's valueOf.
  std::optional<Argument> scalar(const Json &json, ElementType type, const std::string &name) {
    std::optional<Argument> value;
    if (isFloat(type)) {
      if (json.kind == Json::Kind::Integer)
        value = realScalar(type, double(json.number));
      if (json.kind == Json::Kind::Real)
        value = realScalar(type, json.real);
      for (const char *word : {"nan", "inf", "-inf"})
        if (json.kind == Json::Kind::String && json.text == word)
          value = realScalar(type, std::strtod(word, nullptr));
    } else if (json.kind == (type == ElementType::I1 ? Json::Kind::Flag : Json::Kind::Integer)) {
      value = integerScalar(type, type == ElementType::I1 ? json.truth : json.number);
    }
    if (!value)
      fail("the default of " + name + " must be a value of " + std::string(elementTypeName(type)) +
           ", but got '" + json.quote() + "'");
    return value;
  }

  std::vector<ArgumentSpec> arguments(const Json &owner, const std::string &where) {
    std::vector<ArgumentSpec> arguments;
    for (const Json &json : list(owner, "arguments", where, maxArguments)) {
      expectKeys(json, "an argument of " + where,
                 {"name", "kind", "type", "extents", "optional", "capture", "written", "default"});
      ArgumentSpec spec;
      spec.name = text(json, "name", "an argument of " + where);
      std::string name = "argument '" + spec.name + "'";
      std::string kind = text(json, "kind", name);
      spec.isView = kind == "view";
      if (kind != "view" && kind != "scalar")
        fail(name + " must be a view or a scalar, but got '" + kind + "'");
      spec.type = elementType(json, "type", name);
      if (spec.isView)
        for (const Json &extent : list(json, "extents", name)) {
          bool isAny = extent.kind == Json::Kind::Null;
          spec.extents.push_back(isAny ? -1
                                       : int64_t(count(extent, "an extent of " + name, INT32_MAX)));
        }
      spec.isOptional = optionalFlag(json, "optional", name);
      spec.isCapture = optionalFlag(json, "capture", name);
      spec.isWritten = optionalFlag(json, "written", name);
      if (const Json *value = json.find("default"))
        spec.byDefault = scalar(*value, spec.type, name);
      arguments.push_back(std::move(spec));
    }
    return arguments;
  }

  CodeSpec code(const Json &json, const std::string &where) {
    expectKeys(json, "a code of " + where, {"kind", "arch", "ptx_version", "blob"});
    CodeSpec spec;
    std::string kind = text(json, "kind", "a code of " + where);
    spec.kind = kind == "cubin" ? CodeSpec::Kind::Cubin : CodeSpec::Kind::Ptx;
    if (kind != "cubin" && kind != "ptx")
      fail("a code of " + where + " must be ptx or cubin, but got '" + kind + "'");
    std::string arch = text(json, "arch", "a code of " + where);
    std::optional<Arch> parsed = Arch::parse(arch);
    if (!parsed)
      fail("'arch' of a code of " + where + " must be an architecture, such as sm_90a, but got '" +
           arch + "'");
    spec.arch = parsed.value_or(Arch());
    if (spec.kind == CodeSpec::Kind::Ptx)
      spec.ptxVersion =
          int(count(required(json, "ptx_version", "a code of " + where, Json::Kind::Integer),
                    "'ptx_version' of " + where, 999));
    spec.blob = count(required(json, "blob", "a code of " + where, Json::Kind::Integer),
                      "'blob' of " + where, UINT32_MAX);
    return spec;
  }

  std::array<uint32_t, 3> triple(const Json &json, const char *key, const std::string &where) {
    std::array<uint32_t, 3> out = {1, 1, 1};
    const std::vector<Json> &items = list(json, key, where);
    if (items.size() != 3) {
      fail("'" + std::string(key) + "' of " + where + " must have 3 integers, but has " +
           std::to_string(items.size()));
      return out;
    }
    for (unsigned i = 0; i < 3; ++i)
      out[i] = uint32_t(count(items[i], "'" + std::string(key) + "' of " + where, 65535));
    return out;
  }

  uint32_t argumentIndex(const Json &json, const std::vector<ArgumentSpec> &arguments,
                         const std::string &where, const char *key = "argument") {
    std::string name = text(json, key, where);
    for (uint32_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name == name)
        return i;
    fail("'" + std::string(key) + "' of " + where + " must name an argument, but got '" + name +
         "'");
    return 0;
  }

  Expr requiredExpression(const Json &json, const char *key, const std::string &where) {
    if (const Json *member = json.find(key))
      return expression(*member);
    fail("'" + std::string(key) + "' of " + where + " must be an expression, but is missing");
    return Expr();
  }

  std::vector<ElementRuleSpec> elements(const Json &owner,
                                        const std::vector<ArgumentSpec> &arguments,
                                        const std::string &where) {
    using numeric::ElementRule;
    std::vector<ElementRuleSpec> rules;
    for (const Json &json : optionalList(owner, "elements", where)) {
      std::string which = "a rule for elements of " + where;
      std::string name = text(json, "rule", which);
      std::optional<ElementRule> rule = numeric::parseElementRule(name);
      if (!rule) {
        fail("'rule' of " + which + " must be ascending, within or within_first, but got '" + name +
             "'");
        break;
      }
      ElementRuleSpec spec;
      spec.rule = *rule;
      spec.argument = argumentIndex(json, arguments, which);
      if (rule == ElementRule::Ascending) {
        expectKeys(json, which, {"rule", "argument"});
      } else {
        spec.low = requiredExpression(json, "low", which);
        spec.high = requiredExpression(json, "high", which);
        if (rule == ElementRule::Within)
          expectKeys(json, which, {"rule", "argument", "low", "high"});
      }
      if (rule == ElementRule::WithinFirst) {
        expectKeys(json, which, {"rule", "argument", "low", "high", "counts", "size"});
        spec.counts = argumentIndex(json, arguments, which, "counts");
        spec.size = requiredExpression(json, "size", which);
      }
      rules.push_back(std::move(spec));
    }
    return rules;
  }

  TimelineSpec timeline(const Json &json, const std::string &where) {
    expectKeys(json, where, {"tag", "words", "roles", "events"});
    TimelineSpec spec;
    spec.tag = uint32_t(
        count(required(json, "tag", where, Json::Kind::Integer), "'tag' of " + where, UINT32_MAX));
    spec.words = uint32_t(count(required(json, "words", where, Json::Kind::Integer),
                                "'words' of " + where, UINT32_MAX));
    if (!timeline::isChunkSize(spec.words))
      fail("'words' of " + where + " must be a power of 2 from " +
           std::to_string(timeline::leastWords) + " to " + std::to_string(timeline::mostWords) +
           ", but got " + std::to_string(spec.words));
    for (const Json &role : list(json, "roles", where)) {
      if (role.kind != Json::Kind::String)
        fail("a role of " + where + " must be a string, but got '" + role.quote() + "'");
      spec.roles.push_back(role.text);
    }
    for (const Json &item : list(json, "events", where)) {
      std::string which = "an event of " + where;
      expectKeys(item, which, {"kind", "name", "line", "pending", "commits"});
      TimelineEventSpec event;
      event.kind = text(item, "kind", which);
      event.name = text(item, "name", which);
      if (item.find("line"))
        event.line = text(item, "line", which);
      if (const Json *pending = item.find("pending"))
        event.pending = int64_t(count(*pending, "'pending' of " + which, 7));
      event.commits = optionalFlag(item, "commits", which);
      spec.events.push_back(std::move(event));
    }
    return spec;
  }

  KernelSpec kernel(const Json &json) {
    KernelSpec spec;
    spec.name = text(json, "name", "a kernel");
    std::string where = "kernel '" + spec.name + "'";
    expectKeys(json, where, {"name",          "params",
                             "arguments",     "entry",
                             "code",          "grid",
                             "block",         "cluster",
                             "shared_bytes",  "static_shared_bytes",
                             "tensor_maps",   "requires",
                             "when",          "elements",
                             "remarks",       "timeline",
                             "sums",          "adds_in_any_order",
                             "awaits_launch", "allows_launch"});
    spec.params = params(json, where);
    spec.arguments = arguments(json, where);
    spec.entry = text(json, "entry", where);
    for (const Json &item : list(json, "code", where))
      spec.codes.push_back(code(item, where));
    for (const Json &item : list(json, "grid", where))
      spec.grid.push_back(expression(item));
    spec.block = triple(json, "block", where);
    if (json.find("cluster"))
      spec.cluster = triple(json, "cluster", where);
    if (const Json *bytes = json.find("shared_bytes"))
      spec.sharedBytes = uint32_t(count(*bytes, "'shared_bytes' of " + where, 1 << 30));
    if (const Json *bytes = json.find("static_shared_bytes"))
      spec.staticSharedBytes =
          uint32_t(count(*bytes, "'static_shared_bytes' of " + where, 1 << 30));
    for (const Json &remark : optionalList(json, "remarks", where)) {
      if (remark.kind != Json::Kind::String)
        fail("a remark of " + where + " must be a string, but got '" + remark.quote() + "'");
      spec.remarks.push_back(remark.text);
    }
    for (const Json &item : optionalList(json, "tensor_maps", where)) {
      std::string which = "a tensor map of " + where;
      expectKeys(item, which, {"argument", "box", "swizzle", "stored", "ragged", "paged"});
      TensorMapSpec map;
      map.argument = argumentIndex(item, spec.arguments, which);
      for (const Json &extent : list(item, "box", which))
        map.box.push_back(uint32_t(count(extent, "the box of " + which, UINT32_MAX)));
      uint64_t span = count(required(item, "swizzle", which, Json::Kind::Integer),
                            "the swizzle of " + which, 128);
      std::optional<Swizzle> swizzle = layout::findSwizzle(span);
      if (!swizzle)
        fail("the swizzle of " + which + " must be 0, 32, 64 or 128 bytes, but got " +
             std::to_string(span));
      map.swizzle = swizzle.value_or(Swizzle::None);
      map.isStored = optionalFlag(item, "stored", which);
      if (const Json *ragged = item.find("ragged"))
        map.ragged = int(count(*ragged, "'ragged' of " + which, 4));
      map.isPaged = optionalFlag(item, "paged", which);
      spec.tensorMaps.push_back(std::move(map));
    }
    for (const Json &item : optionalList(json, "requires", where)) {
      std::string which = "a requirement of " + where;
      expectKeys(item, which, {"argument", "alignment", "unit_inner"});
      ViewRequirement requirement;
      requirement.argument = argumentIndex(item, spec.arguments, which);
      if (const Json *alignment = item.find("alignment"))
        requirement.alignment = int64_t(count(*alignment, "the alignment of " + which, 4096));
      requirement.isUnitInner = optionalFlag(item, "unit_inner", which);
      spec.requirements.push_back(requirement);
    }
    spec.conditions = conditions(json, where);
    spec.elements = elements(json, spec.arguments, where);
    for (const Json &item : optionalList(json, "sums", where)) {
      std::optional<ElementType> type = parseElementType(item.text);
      if (item.kind != Json::Kind::String || !type)
        fail("'sums' of " + where + " must be element types, such as f32, but got '" +
             item.quote() + "'");
      spec.sums.push_back(type.value_or(ElementType::F32));
    }
    if (json.find("adds_in_any_order"))
      spec.addsInAnyOrder = optionalFlag(json, "adds_in_any_order", where);
    spec.awaitsLaunch = optionalFlag(json, "awaits_launch", where);
    spec.allowsLaunch = optionalFlag(json, "allows_launch", where);
    if (const Json *events = json.find("timeline"))
      spec.timeline = timeline(*events, "the timeline of " + where);
    return spec;
  }

  std::vector<Expr> conditions(const Json &owner, const std::string &where) {
    std::vector<Expr> conditions;
    for (const Json &item : optionalList(owner, "when", where))
      conditions.push_back(expression(item));
    return conditions;
  }

  std::vector<WorkspaceSpec> workspaces(const Json &owner, const std::string &where) {
    std::vector<WorkspaceSpec> workspaces;
    for (const Json &item : list(owner, "workspaces", where)) {
      std::string which = "a workspace of " + where;
      expectKeys(item, which, {"name", "type", "extents", "fill"});
      WorkspaceSpec workspace;
      workspace.name = text(item, "name", which);
      workspace.type = elementType(item, "type", which);
      for (const Json &extent : list(item, "extents", which))
        workspace.extents.push_back(expression(extent));
      if (const Json *fill = item.find("fill"))
        workspace.fill = uint32_t(count(*fill, "the fill of " + which, UINT32_MAX));
      workspaces.push_back(std::move(workspace));
    }
    return workspaces;
  }

  std::vector<LaunchSpec> launches(const Json &owner, const std::string &where) {
    std::vector<LaunchSpec> launches;
    for (const Json &item : list(owner, "launches", where)) {
      std::string which = "a launch of " + where;
      expectKeys(item, which, {"kernels", "arguments", "when"});
      LaunchSpec launch;
      for (const Json &index : list(item, "kernels", which, maxKernels))
        launch.kernels.push_back(count(index, "a kernel of " + which, UINT32_MAX));
      for (const Json &name : list(item, "arguments", which, maxArguments)) {
        if (name.kind != Json::Kind::String)
          fail("an argument of " + which + " must be a string, but got '" + name.quote() + "'");
        launch.arguments.push_back(name.text);
      }
      if (const Json *condition = item.find("when"))
        launch.condition = expression(*condition);
      launches.push_back(std::move(launch));
    }
    return launches;
  }

  FormSpec form(const Json &json, const std::string &where) {
    FormSpec spec;
    expectKeys(json, "a form of " + where, {"target", "params", "when", "workspaces", "launches"});
    std::string target = text(json, "target", "a form of " + where);
    std::optional<Arch> parsed = Arch::parse(target);
    if (!parsed)
      fail("'target' of a form of " + where +
           " must be an architecture, such as sm_90a, but got '" + target + "'");
    spec.target = parsed.value_or(Arch());
    spec.params = params(json, "a form of " + where);
    spec.conditions = conditions(json, "a form of " + where);
    spec.workspaces = workspaces(json, where);
    spec.launches = launches(json, where);
    return spec;
  }

  /// The kernels of a program of ABI 3 were for several targets, of which a run used one: the first
  /// that had a variant for each launch. `kernels` are those of the manifest.
  std::vector<FormSpec> formsOfAbi3(const Json &json, const std::string &where,
                                    const std::vector<KernelSpec> &kernels) {
    FormSpec all;
    all.workspaces = workspaces(json, where);
    all.launches = launches(json, where);
    std::vector<FormSpec> forms;
    auto add = [&](const Arch &target) {
      for (const FormSpec &form : forms)
        if (form.target == target)
          return;
      forms.push_back(all);
      forms.back().target = target;
      for (LaunchSpec &launch : forms.back().launches) {
        auto isOther = [&](size_t kernel) {
          return kernel < kernels.size() && !kernels[kernel].hasCodeFor(target);
        };
        launch.kernels.erase(std::remove_if(launch.kernels.begin(), launch.kernels.end(), isOther),
                             launch.kernels.end());
        if (launch.kernels.empty()) { // not a form
          forms.pop_back();
          return;
        }
      }
    };
    for (const LaunchSpec &launch : all.launches)
      for (size_t kernel : launch.kernels)
        if (kernel < kernels.size())
          for (const CodeSpec &code : kernels[kernel].codes)
            add(code.arch);
    if (forms.empty() && failure.ok())
      fail(where + " must have code for one target in each launch, but has none");
    return forms;
  }

  ProgramSpec program(const Json &json, int64_t abi, const std::vector<KernelSpec> &kernels) {
    ProgramSpec spec;
    spec.name = text(json, "name", "a program");
    std::string where = "program '" + spec.name + "'";
    if (abi < 4)
      expectKeys(json, where,
                 {"name", "params", "arguments", "workspaces", "launches", "when", "elements"});
    else
      expectKeys(json, where, {"name", "params", "arguments", "when", "elements", "forms"});
    spec.params = params(json, where);
    spec.arguments = arguments(json, where);
    spec.conditions = conditions(json, where);
    spec.elements = elements(json, spec.arguments, where);
    if (abi < 4)
      spec.forms = formsOfAbi3(json, where, kernels);
    else
      for (const Json &item : list(json, "forms", where, maxForms))
        spec.forms.push_back(form(item, where));
    return spec;
  }
};

} // namespace

Result<Manifest> Manifest::fromJson(const Json &json) {
  Reader reader;
  Manifest manifest;
  // Another ABI may have other keys, so it is checked first.
  int64_t abi = reader.required(json, "abi", "the manifest", Json::Kind::Integer).number;
  if (reader.failure.ok() && (abi < leastKernelAbiVersion || abi > kernelAbiVersion))
    return bad("the bundle has kernel ABI " + std::to_string(abi) + ", but this runtime reads " +
               std::to_string(leastKernelAbiVersion) + " to " + std::to_string(kernelAbiVersion) +
               "; compile it again");
  reader.expectKeys(json, "the manifest", {"abi", "producer", "source", "kernels", "programs"});
  manifest.producer = reader.text(json, "producer", "the manifest");
  manifest.source = reader.text(json, "source", "the manifest");
  for (const Json &kernel : reader.list(json, "kernels", "the manifest", maxKernels))
    manifest.kernels.push_back(reader.kernel(kernel));
  for (const Json &program : reader.list(json, "programs", "the manifest", maxKernels))
    manifest.programs.push_back(reader.program(program, abi, manifest.kernels));
  if (!reader.failure.ok())
    return reader.failure;
  return manifest;
}

// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a manifest as JSON, in the current version of the ABI.

#include "runtime/Manifest.h"

#include <cmath>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

Json toJson(const Params &params) {
  Json json = Json::object();
  for (const auto &param : params)
    json.set(param.first, runtime::toJson(param.second));
  return json;
}

/// JSON has no number for infinities and NaN.
Json valueOf(const Argument &scalar) {
  if (scalar.type == ElementType::I1)
    return Json::flag(scalar.bits != 0);
  if (!isFloat(scalar.type))
    return Json::integer(scalar.integer());
  double value = realValue(scalar);
  if (!std::isfinite(value))
    return Json::string(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  return Json::floating(value);
}

Json toJson(const std::vector<ArgumentSpec> &arguments) {
  Json list = Json::array();
  for (const ArgumentSpec &argument : arguments) {
    Json json = Json::object();
    json.set("name", Json::string(argument.name));
    json.set("kind", Json::string(argument.isView ? "view" : "scalar"));
    json.set("type", Json::string(std::string(elementTypeName(argument.type))));
    if (argument.isView) {
      Json extents = Json::array();
      for (int64_t extent : argument.extents)
        extents.items.push_back(extent < 0 ? Json() : Json::integer(extent));
      json.set("extents", std::move(extents));
    }
    if (argument.isOptional)
      json.set("optional", Json::flag(true));
    if (argument.isCapture)
      json.set("capture", Json::flag(true));
    if (argument.isWritten)
      json.set("written", Json::flag(true));
    if (argument.byDefault)
      json.set("default", valueOf(*argument.byDefault));
    list.items.push_back(std::move(json));
  }
  return list;
}

Json toJson(const std::vector<Expr> &exprs) {
  Json list = Json::array();
  for (const Expr &expr : exprs)
    list.items.push_back(runtime::toJson(expr));
  return list;
}

Json toJson(const std::vector<ElementRuleSpec> &rules, const std::vector<ArgumentSpec> &arguments) {
  Json list = Json::array();
  for (const ElementRuleSpec &rule : rules) {
    Json json = Json::object();
    json.set("rule", Json::string(std::string(numeric::elementRuleName(rule.rule))));
    json.set("argument", Json::string(arguments[rule.argument].name));
    if (rule.rule != numeric::ElementRule::Ascending) {
      json.set("low", runtime::toJson(rule.low));
      json.set("high", runtime::toJson(rule.high));
    }
    if (rule.rule == numeric::ElementRule::WithinFirst) {
      json.set("counts", Json::string(arguments[rule.counts].name));
      json.set("size", runtime::toJson(rule.size));
    }
    list.items.push_back(std::move(json));
  }
  return list;
}

template <typename Integers> Json integers(const Integers &values) {
  Json list = Json::array();
  for (auto value : values)
    list.items.push_back(Json::integer(int64_t(value)));
  return list;
}

Json toJson(const TimelineSpec &timeline) {
  Json json = Json::object();
  json.set("tag", Json::integer(timeline.tag));
  json.set("words", Json::integer(timeline.words));
  Json roles = Json::array();
  for (const std::string &role : timeline.roles)
    roles.items.push_back(Json::string(role));
  json.set("roles", std::move(roles));
  Json events = Json::array();
  for (const TimelineEventSpec &event : timeline.events) {
    Json item = Json::object();
    item.set("kind", Json::string(event.kind));
    item.set("name", Json::string(event.name));
    if (!event.line.empty())
      item.set("line", Json::string(event.line));
    if (event.pending >= 0)
      item.set("pending", Json::integer(event.pending));
    if (event.commits)
      item.set("commits", Json::flag(true));
    events.items.push_back(std::move(item));
  }
  json.set("events", std::move(events));
  return json;
}

Json toJson(const KernelSpec &kernel) {
  Json json = Json::object();
  json.set("name", Json::string(kernel.name));
  json.set("params", toJson(kernel.params));
  json.set("arguments", toJson(kernel.arguments));
  json.set("entry", Json::string(kernel.entry));
  Json codes = Json::array();
  for (const CodeSpec &code : kernel.codes) {
    Json item = Json::object();
    bool isPtx = code.kind == CodeSpec::Kind::Ptx;
    item.set("kind", Json::string(isPtx ? "ptx" : "cubin"));
    item.set("arch", Json::string(code.arch.toString()));
    if (isPtx)
      item.set("ptx_version", Json::integer(code.ptxVersion));
    item.set("blob", Json::integer(int64_t(code.blob)));
    codes.items.push_back(std::move(item));
  }
  json.set("code", std::move(codes));
  json.set("grid", toJson(kernel.grid));
  json.set("block", integers(kernel.block));
  json.set("cluster", integers(kernel.cluster));
  json.set("shared_bytes", Json::integer(kernel.sharedBytes));
  if (kernel.staticSharedBytes)
    json.set("static_shared_bytes", Json::integer(kernel.staticSharedBytes));
  Json maps = Json::array();
  for (const TensorMapSpec &map : kernel.tensorMaps) {
    Json item = Json::object();
    item.set("argument", Json::string(kernel.arguments[map.argument].name));
    item.set("box", integers(map.box));
    item.set("swizzle", Json::integer(layout::panelBytes(map.swizzle)));
    if (map.isStored)
      item.set("stored", Json::flag(true));
    if (map.ragged >= 0)
      item.set("ragged", Json::integer(map.ragged));
    if (map.isPaged)
      item.set("paged", Json::flag(true));
    maps.items.push_back(std::move(item));
  }
  json.set("tensor_maps", std::move(maps));
  Json requirements = Json::array();
  for (const ViewRequirement &requirement : kernel.requirements) {
    Json item = Json::object();
    item.set("argument", Json::string(kernel.arguments[requirement.argument].name));
    item.set("alignment", Json::integer(requirement.alignment));
    item.set("unit_inner", Json::flag(requirement.isUnitInner));
    requirements.items.push_back(std::move(item));
  }
  json.set("requires", std::move(requirements));
  json.set("when", toJson(kernel.conditions));
  json.set("elements", toJson(kernel.elements, kernel.arguments));
  Json remarks = Json::array();
  for (const std::string &remark : kernel.remarks)
    remarks.items.push_back(Json::string(remark));
  if (!kernel.remarks.empty())
    json.set("remarks", std::move(remarks));
  if (kernel.timeline.words)
    json.set("timeline", toJson(kernel.timeline));
  if (!kernel.sums.empty()) {
    Json sums = Json::array();
    for (ElementType type : kernel.sums)
      sums.items.push_back(Json::string(std::string(elementTypeName(type))));
    json.set("sums", std::move(sums));
  }
  if (kernel.addsInAnyOrder)
    json.set("adds_in_any_order", Json::flag(*kernel.addsInAnyOrder));
  if (kernel.awaitsLaunch)
    json.set("awaits_launch", Json::flag(true));
  if (kernel.allowsLaunch)
    json.set("allows_launch", Json::flag(true));
  return json;
}

Json toJson(const FormSpec &form) {
  Json json = Json::object();
  json.set("target", Json::string(form.target.toString()));
  json.set("params", toJson(form.params));
  json.set("when", toJson(form.conditions));
  Json workspaces = Json::array();
  for (const WorkspaceSpec &workspace : form.workspaces) {
    Json item = Json::object();
    item.set("name", Json::string(workspace.name));
    item.set("type", Json::string(std::string(elementTypeName(workspace.type))));
    item.set("extents", toJson(workspace.extents));
    if (workspace.fill)
      item.set("fill", Json::integer(*workspace.fill));
    workspaces.items.push_back(std::move(item));
  }
  json.set("workspaces", std::move(workspaces));
  Json launches = Json::array();
  for (const LaunchSpec &launch : form.launches) {
    Json item = Json::object();
    item.set("kernels", integers(launch.kernels));
    Json names = Json::array();
    for (const std::string &name : launch.arguments)
      names.items.push_back(Json::string(name));
    item.set("arguments", std::move(names));
    if (launch.condition)
      item.set("when", runtime::toJson(*launch.condition));
    launches.items.push_back(std::move(item));
  }
  json.set("launches", std::move(launches));
  return json;
}

Json toJson(const ProgramSpec &program) {
  Json json = Json::object();
  json.set("name", Json::string(program.name));
  json.set("params", toJson(program.params));
  json.set("arguments", toJson(program.arguments));
  json.set("when", toJson(program.conditions));
  json.set("elements", toJson(program.elements, program.arguments));
  Json forms = Json::array();
  for (const FormSpec &form : program.forms)
    forms.items.push_back(::toJson(form));
  json.set("forms", std::move(forms));
  return json;
}

} // namespace

Json Manifest::toJson() const {
  Json json = Json::object();
  json.set("abi", Json::integer(kernelAbiVersion));
  json.set("producer", Json::string(producer));
  json.set("source", Json::string(source));
  Json list = Json::array();
  for (const KernelSpec &kernel : kernels)
    list.items.push_back(::toJson(kernel));
  json.set("kernels", std::move(list));
  list = Json::array();
  for (const ProgramSpec &program : programs)
    list.items.push_back(::toJson(program));
  json.set("programs", std::move(list));
  return json;
}

// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Forms of a program: what they share stays with the program.

#include "lib/Bundle/ProgramForms.h"

#include "lib/Support/MakeError.h"

#include "llvm/ADT/STLExtras.h"

using namespace tilewright;
using namespace tilewright::bundle;
using runtime::FormSpec;
using runtime::ProgramSpec;

/// Moves the items of `list` that `other` lacks to `rest`.
template <typename List> static void keepCommon(List &list, const List &other, List &rest) {
  auto isCommon = [&](const auto &item) { return llvm::is_contained(other, item); };
  llvm::copy_if(list, std::back_inserter(rest), [&](const auto &item) { return !isCommon(item); });
  llvm::erase_if(list, [&](const auto &item) { return !isCommon(item); });
}

/// In their written form.
static std::string toText(const ProgramSpec &program) {
  runtime::Manifest manifest;
  manifest.programs.push_back(program);
  return manifest.toJson().write();
}

/// Arguments and rules for elements, which a run checks before it knows the form.
static std::string getContract(const ProgramSpec &program) {
  ProgramSpec contract;
  contract.arguments = program.arguments;
  contract.elements = program.elements;
  for (runtime::ArgumentSpec &argument : contract.arguments)
    argument.isWritten = false;
  return toText(contract);
}

static std::string getForm(const FormSpec &form) {
  ProgramSpec program;
  program.forms = {form};
  return toText(program);
}

llvm::Error bundle::addForm(ProgramSpec &into, ProgramSpec from) {
  FormSpec &form = from.forms.front();
  if (getContract(into) != getContract(from))
    return makeError("program '" + into.name +
                     "' must have the same arguments, and the same rules for their elements, for "
                     "every target, but those for " +
                     form.target.toString() + " differ; make one bundle per target");
  for (auto [own, other] : llvm::zip_equal(into.arguments, from.arguments))
    own.isWritten |= other.isWritten;

  runtime::Params params;
  std::vector<runtime::Expr> conditions;
  keepCommon(into.params, from.params, params);
  keepCommon(into.conditions, from.conditions, conditions);
  for (FormSpec &known : into.forms) {
    llvm::append_range(known.params, params);
    llvm::append_range(known.conditions, conditions);
  }
  keepCommon(from.params, into.params, form.params);
  keepCommon(from.conditions, into.conditions, form.conditions);
  std::string text = getForm(form);
  if (llvm::none_of(into.forms, [&](const FormSpec &known) { return getForm(known) == text; }))
    into.forms.push_back(std::move(form));
  return llvm::Error::success();
}

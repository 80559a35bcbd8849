// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts tilewright-lsp-server for .mlir files, and stops it with the editor.

"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = function (context) {
  const command = vscode.workspace.getConfiguration("tilewright").get("server");
  client = new LanguageClient(
    "tilewright",
    "Tilewright",
    { command, args: [] },
    { documentSelector: [{ language: "tilewright" }] }
  );
  context.subscriptions.push({ dispose: () => client.stop() });
  return client.start().catch((error) => {
    vscode.window.showErrorMessage(
      `Tilewright: ${command} does not start (${error.message}); set tilewright.server to its path`
    );
  });
};

exports.deactivate = function () {
  return client ? client.stop() : undefined;
};

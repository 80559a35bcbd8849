-- Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
--
-- For Neovim 0.8 or later, in init.lua: dofile("/path/to/tools/editors/neovim.lua"). Starts tilewright-lsp-server, which must be
-- in PATH, for .mlir files.

vim.filetype.add({ extension = { mlir = "mlir" } })
vim.api.nvim_create_autocmd("FileType", {
  pattern = "mlir",
  callback = function(event)
    vim.bo[event.buf].commentstring = "// %s"
    vim.lsp.start({
      name = "tilewright",
      cmd = { "tilewright-lsp-server" },
      root_dir = vim.fs.dirname(vim.api.nvim_buf_get_name(event.buf)),
    })
  end,
})

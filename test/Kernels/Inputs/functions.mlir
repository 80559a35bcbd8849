// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values and derivatives of functions, one after the other along the first dimension. The last element is at a pole of
// some of them, with a zero seed.

!t = !tile.tile<[37], T>
!view = !tile.view<[?, ?], T>

func.func private @asin(%x: !tile.param<T>) -> !tile.param<T> {
  %y = math.asin %x : !tile.param<T>
  return %y : !tile.param<T>
}
func.func private @acos(%x: !tile.param<T>) -> !tile.param<T> {
  %y = math.acos %x : !tile.param<T>
  return %y : !tile.param<T>
}
func.func private @sinh(%x: !tile.param<T>) -> !tile.param<T> {
  %y = math.sinh %x : !tile.param<T>
  return %y : !tile.param<T>
}
func.func private @cosh(%x: !tile.param<T>) -> !tile.param<T> {
  %y = math.cosh %x : !tile.param<T>
  return %y : !tile.param<T>
}
func.func private @cbrt(%x: !tile.param<T>) -> !tile.param<T> {
  %y = math.cbrt %x : !tile.param<T>
  return %y : !tile.param<T>
}
func.func private @erfc(%x: !tile.param<T>) -> !tile.param<T> {
  %y = math.erfc %x : !tile.param<T>
  return %y : !tile.param<T>
}

tile.kernel @functions params(T: type = f32) (%x: !tile.view<[?], T>, %seed: !tile.view<[?], T>, %y: !view, %d: !view) grid(%b = 1) {
  %at = tile.load %x[0] : !tile.view<[?], T> -> !t
  %s = tile.load %seed[0] : !tile.view<[?], T> -> !t
  %y0 = math.asin %at : !t
  tile.store %y0, %y[0, 0] : !t, !view
  %d0 = tile.map_gradient @asin(%at) wrt 0 seed %s : !t : (!t) -> !t
  tile.store %d0, %d[0, 0] : !t, !view
  %y1 = math.acos %at : !t
  tile.store %y1, %y[1, 0] : !t, !view
  %d1 = tile.map_gradient @acos(%at) wrt 0 seed %s : !t : (!t) -> !t
  tile.store %d1, %d[1, 0] : !t, !view
  %y2 = math.sinh %at : !t
  tile.store %y2, %y[2, 0] : !t, !view
  %d2 = tile.map_gradient @sinh(%at) wrt 0 seed %s : !t : (!t) -> !t
  tile.store %d2, %d[2, 0] : !t, !view
  %y3 = math.cosh %at : !t
  tile.store %y3, %y[3, 0] : !t, !view
  %d3 = tile.map_gradient @cosh(%at) wrt 0 seed %s : !t : (!t) -> !t
  tile.store %d3, %d[3, 0] : !t, !view
  %y4 = math.cbrt %at : !t
  tile.store %y4, %y[4, 0] : !t, !view
  %d4 = tile.map_gradient @cbrt(%at) wrt 0 seed %s : !t : (!t) -> !t
  tile.store %d4, %d[4, 0] : !t, !view
  %y5 = math.erfc %at : !t
  tile.store %y5, %y[5, 0] : !t, !view
  %d5 = tile.map_gradient @erfc(%at) wrt 0 seed %s : !t : (!t) -> !t
  tile.store %d5, %d[5, 0] : !t, !view
}

// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random kernels against a simple evaluation without buffers. The device reuses the buffers of dead
// operands, keeps vectors and splats unexpanded, and moves values around loops; here every value is
// a separate list of numbers. Operations are exact, so that results agree in every bit.

#include "InterpreterTesting.h"

#include <random>

namespace tilewright {
namespace {

constexpr int64_t tileRows = 4, tileColumns = 5, count = tileRows * tileColumns;
using Values = std::vector<float>;

/// One operation on tiles of rows x columns (or a loop or branch over such operations).
struct Node {
  enum Kind { Add, Sub, Max, Neg, Select, RowMax, ColumnMin, Twice, Map, Constant, Loop, If } kind;
  std::vector<int> operands; ///< value numbers
  int result;                ///< value number of the first result; loops and branches have two
  double constant = 0;
  int iterations = 0;
  std::vector<int> arguments;    ///< arguments of a loop body
  std::vector<Node> body, other; ///< `other`: the else branch
  std::vector<int> yields, otherYields;
};

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  /// Values 0, 1 and 2 are a tile, a row vector and a column vector that are loaded.
  std::vector<Node> generate(std::vector<int> visible, int size, int depth) {
    std::vector<Node> nodes;
    for (int i = 0; i < size; ++i) {
      Node node;
      int pick = uniform(0, depth > 0 ? 11 : 9);
      node.kind = static_cast<Node::Kind>(pick);
      auto choose = [&] {
        // Recent values are more likely, so that many die early.
        int last = static_cast<int>(visible.size()) - 1;
        return visible[std::max(uniform(0, last), uniform(0, last))];
      };
      for (int k = 0; k < 3; ++k)
        node.operands.push_back(choose());
      node.constant = uniform(-3, 3);
      if (node.kind == Node::Loop || node.kind == Node::If) {
        node.iterations = uniform(0, 3);
        std::vector<int> inside = visible;
        if (node.kind == Node::Loop) {
          node.arguments = {next(), next()};
          inside.insert(inside.end(), node.arguments.begin(), node.arguments.end());
        }
        node.body = generate(inside, uniform(1, 5), depth - 1);
        node.yields = yieldsOf(inside, node.body);
        if (node.kind == Node::If) {
          node.other = generate(visible, uniform(1, 3), depth - 1);
          node.otherYields = yieldsOf(visible, node.other);
        }
      }
      node.result = next();
      visible.push_back(node.result);
      if (node.kind == Node::Loop || node.kind == Node::If)
        visible.push_back(next());
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

private:
  int next() { return number++; }
  int uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
  std::vector<int> yieldsOf(std::vector<int> visible, const std::vector<Node> &nodes) {
    for (const Node &node : nodes)
      visible.push_back(node.result);
    int last = static_cast<int>(visible.size()) - 1;
    return {visible[std::max(0, last - uniform(0, 3))], visible[std::max(0, last - uniform(0, 3))]};
  }

  std::mt19937 random;
  int number = 3;
};

/// The text of nodes. A tile is named %v<number>.
void print(const std::vector<Node> &nodes, std::string &text) {
  for (const Node &node : nodes) {
    std::string id = std::to_string(node.result);
    auto v = [](int number) { return "%v" + std::to_string(number); };
    std::string r = v(node.result), a = v(node.operands[0]), b = v(node.operands[1]),
                c = v(node.operands[2]);
    auto pair = [&](const std::vector<int> &values) { return v(values[0]) + ", " + v(values[1]); };
    switch (node.kind) {
    case Node::Add:
      text += r + " = arith.addf " + a + ", " + b + " : !t\n";
      break;
    case Node::Sub:
      text += r + " = arith.subf " + a + ", " + b + " : !t\n";
      break;
    case Node::Max:
      text += r + " = arith.maximumf " + a + ", " + b + " : !t\n";
      break;
    case Node::Neg:
      text += r + " = arith.negf " + a + " : !t\n";
      break;
    case Node::Select:
      text += "%k" + id + " = arith.cmpf olt, " + a + ", " + b + " : !t\n" + r +
              " = tile.select %k" + id + ", " + b + ", " + c + " : tensor<4x5xi1>, !t\n";
      break;
    case Node::RowMax:
      text += "%m" + id + " = tile.reduce max " + a + " dim 1 : !t -> tensor<4xf32>\n" + r +
              " = tile.expand %m" + id + " dim 1 : tensor<4xf32> -> !t\n";
      break;
    case Node::ColumnMin: // negated on the way
      text += "%m" + id + " = tile.reduce min " + a + " dim 0 : !t -> tensor<5xf32>\n%n" + id +
              " = arith.negf %m" + id + " : tensor<5xf32>\n" + r + " = tile.expand %n" + id +
              " dim 0 : tensor<5xf32> -> !t\n";
      break;
    case Node::Twice: // transposed there and back
      text += "%t" + id + " = tile.transpose " + a + " [1, 0] : !t -> tensor<5x4xf32>\n%u" + id +
              " = arith.addf %t" + id + ", %t" + id + " : tensor<5x4xf32>\n" + r +
              " = tile.transpose %u" + id + " [1, 0] : tensor<5x4xf32> -> !t\n";
      break;
    case Node::Map:
      text += r + " = tile.map @f(" + a + ", " + b + ") : (!t, !t) -> !t\n";
      break;
    case Node::Constant:
      text += "%s" + id + " = arith.constant " + std::to_string(node.constant) + " : f32\n" + r +
              " = tile.full %s" + id + " : !t\n";
      break;
    case Node::Loop:
      text += r + ", " + v(node.result + 1) + " = scf.for %i" + id + " = %c0 to %c" +
              std::to_string(node.iterations) + " step %c1 iter_args(" + v(node.arguments[0]) +
              " = " + a + ", " + v(node.arguments[1]) + " = " + b + ") -> (!t, !t) : i32 {\n";
      print(node.body, text);
      text += "scf.yield " + pair(node.yields) + " : !t, !t\n}\n";
      break;
    case Node::If:
      text += "%b" + id + " = arith.cmpi slt, %g, %c" + std::to_string(node.iterations) +
              " : i32\n" + r + ", " + v(node.result + 1) + " = scf.if %b" + id + " -> (!t, !t) {\n";
      print(node.body, text);
      text += "scf.yield " + pair(node.yields) + " : !t, !t\n} else {\n";
      print(node.other, text);
      text += "scf.yield " + pair(node.otherYields) + " : !t, !t\n}\n";
      break;
    }
  }
}

void evaluate(const std::vector<Node> &nodes, std::map<int, Values> &values, int64_t g) {
  for (const Node &node : nodes) {
    Values a = values[node.operands[0]], b = values[node.operands[1]], c = values[node.operands[2]];
    Values r(count);
    for (int64_t e = 0; e < count; ++e) {
      int64_t row = e / tileColumns, column = e % tileColumns;
      switch (node.kind) {
      case Node::Add:
        r[e] = a[e] + b[e];
        break;
      case Node::Sub:
        r[e] = a[e] - b[e];
        break;
      case Node::Max:
        r[e] = std::max(a[e], b[e]);
        break;
      case Node::Neg:
        r[e] = -a[e];
        break;
      case Node::Select:
        r[e] = a[e] < b[e] ? b[e] : c[e];
        break;
      case Node::RowMax:
        r[e] =
            *std::max_element(a.begin() + row * tileColumns, a.begin() + (row + 1) * tileColumns);
        break;
      case Node::ColumnMin: {
        float least = a[column];
        for (int64_t i = 0; i < tileRows; ++i)
          least = std::min(least, a[i * tileColumns + column]);
        r[e] = -least;
        break;
      }
      case Node::Twice:
        r[e] = a[e] + a[e];
        break;
      case Node::Map:
        r[e] = a[e] < 0 ? b[e] - a[e] : a[e];
        break;
      case Node::Constant:
        r[e] = static_cast<float>(node.constant);
        break;
      default:
        break;
      }
    }
    if (node.kind == Node::Loop) {
      for (int i = 0; i < node.iterations; ++i) {
        values[node.arguments[0]] = a;
        values[node.arguments[1]] = b;
        evaluate(node.body, values, g);
        a = values[node.yields[0]];
        b = values[node.yields[1]];
      }
      values[node.result] = a;
      values[node.result + 1] = b;
    } else if (node.kind == Node::If) {
      bool holds = g < node.iterations;
      evaluate(holds ? node.body : node.other, values, g);
      const std::vector<int> &yields = holds ? node.yields : node.otherYields;
      values[node.result] = values[yields[0]];
      values[node.result + 1] = values[yields[1]];
    } else {
      values[node.result] = r;
    }
  }
}

class RandomKernelTest : public InterpreterTest {};

TEST_F(RandomKernelTest, AgreeWithNaiveEvaluation) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::vector<Node> nodes = Generator(seed).generate({0, 1, 2}, 14, 2);
    std::string body;
    print(nodes, body);
    // Every value of the outermost level is stored; in odd runs only the last one, so that the
    // others die at different places.
    std::vector<int> stored;
    for (const Node &node : nodes)
      if (seed % 2 == 0 || &node == &nodes.back())
        stored.push_back(node.result);
    for (size_t k = 0; k < stored.size(); ++k)
      body += "tile.store %v" + std::to_string(stored[k]) + ", %out[%g, " + std::to_string(k) +
              ", 0, 0] : !t, !tile.view<[?, ?, ?, ?], f32>\n";
    std::string source = substitute(R"(
!t = tensor<4x5xf32>
func.func private @f(%a: f32, %b: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %negative = arith.cmpf olt, %a, %zero : f32
  %r = scf.if %negative -> f32 {
    %d = arith.subf %b, %a : f32
    scf.yield %d : f32
  } else {
    scf.yield %a : f32
  }
  return %r : f32
}
tile.kernel @k (%x: !tile.view<[?, ?], f32>, %out: !tile.view<[?, ?, ?, ?], f32>) grid(%g = 2) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %v0 = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> !t
  %row = tile.load %x[0, 0] dims [0] : !tile.view<[?, ?], f32> -> tensor<4xf32>
  %v1 = tile.expand %row dim 1 : tensor<4xf32> -> !t
  %column = tile.load %x[1, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<5xf32>
  %v2 = tile.expand %column dim 0 : tensor<5xf32> -> !t
  $BODY
})",
                                    {{"BODY", body}});
    // Small integers: sums are exact.
    Tensor x(ElementType::F32, {tileRows, tileColumns},
             [](int64_t i) { return double(i * 7 % 11) - 5; });
    int64_t slots = static_cast<int64_t>(stored.size());
    Tensor out(ElementType::F32, {2, slots, tileRows, tileColumns}, -1e30);
    run(source, {{"x", x.argument()}, {"out", out.argument()}});
    for (int64_t g = 0; g < 2; ++g) {
      std::map<int, Values> values;
      for (int64_t e = 0; e < count; ++e) {
        values[0].push_back(float(x.get(e)));
        values[1].push_back(float(x.get(e / tileColumns, 0)));
        values[2].push_back(float(x.get(1, e % tileColumns)));
      }
      evaluate(nodes, values, g);
      for (int64_t k = 0; k < slots; ++k)
        for (int64_t e = 0; e < count; ++e)
          ASSERT_EQ(out.get((g * slots + k) * count + e), double(values[stored[k]][e]))
              << "seed " << seed << ", value " << stored[k] << "\n"
              << source;
    }
  }
}

} // namespace
} // namespace tilewright

// Var: a Tensor that remembers where it came from. The whole engine is this page and backward.cpp.
//
// Reverse mode: let L be the loss. Every op y = f(x) comes with its pullback, the linear map that takes dL/dy to dL/dx.
// Running the pullbacks in reverse order of the ops, and adding up what arrives at a value that was used several times,
// gives dL/d(everything) for about twice the cost of computing L.
//
//     Var w = Var::param(random_normal({3, 3}, 1, rng));
//     Var y = matmul(x, w);          // ops compute at once and record how to go back
//     backward(sum(y));              // fills w.grad()
//
// First order only: gradients are plain Tensors, so a gradient cannot be differentiated again, and cannot grow a graph.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

class Adjoints;

// Takes dL/dy, and gives each input its share through d.add. It may capture Tensors, never Vars: the capture list is
// the list of what an op saves for later, and a captured Var would keep the whole graph alive (or, its own output, for
// ever).
using Pullback = std::function<void(const Tensor& dy, Adjoints& d)>;

struct Node {
  const char* op;
  uint64_t id;  // creation number: inputs always have smaller ones
  Shape shape;
  std::vector<std::shared_ptr<Node>> inputs;  // null where an input needs no gradient
  Pullback pullback;                          // empty in a leaf
  Tensor grad;                                // dL/d(this value), as far as it has arrived
  bool released = false;
  struct Watch {
    std::weak_ptr<Storage> storage;  // weak: watching must not keep memory alive
    uint64_t version;
  };
  std::vector<Watch> watched;  // what the op read and wrote: none of it may change before the pullback runs

  bool leaf() const { return !pullback; }
  void accumulate(Tensor g, const char* from);
  void accumulate_product(const Tensor& a, const Tensor& b, const char* from);
  bool own_grad() const { return grad.defined() && grad.unique() && grad.is_contiguous(); }  // may be added to in place
  void check_versions() const;
  void release();
  ~Node();
};

class Var {
 public:
  Var() = default;
  Var(Tensor constant) : value_(std::move(constant)) {}  // implicit: any Tensor can be used where a Var is expected
  static Var param(Tensor value);                        // a leaf that wants a gradient

  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  int64_t dim(int i) const { return value_.dim(i); }
  bool needs_grad() const { return node_ != nullptr; }
  const Tensor& grad() const;  // undefined until backward reached this leaf
  void clear_grad() const;
  Var detach() const { return Var(value_); }  // the same numbers, cut off from their history
  const std::shared_ptr<Node>& node() const { return node_; }

 private:
  friend Var record(const char*, Tensor, const std::vector<Var>&, Pullback);
  Tensor value_;
  std::shared_ptr<Node> node_;
};

// The only door into the graph: an op computes its value, then records how to pull a gradient back.
Var record(const char* op, Tensor value, const std::vector<Var>& inputs, Pullback pullback);

// Fills grad() of every leaf that `loss` (one element) depends on, adding to what is there, and frees the graph as it
// goes.
void backward(const Var& loss);

// What a pullback hands out.
class Adjoints {
 public:
  explicit Adjoints(Node& node) : node_(node) {}
  bool needs(size_t input) const { return node_.inputs[input] != nullptr; }
  // Adds compute() to the gradient of one input. It is called only if that input needs one.
  template <class F>
  void add(size_t input, F&& compute) {
    if (needs(input)) node_.inputs[input]->accumulate(compute(), node_.op);
  }
  // The same for a matrix product a @ b, which can be added without being stored first.
  void add_product(size_t input, const Tensor& a, const Tensor& b) {
    if (needs(input)) node_.inputs[input]->accumulate_product(a, b, node_.op);
  }

 private:
  Node& node_;
};

// While a NoGrad lives, ops record nothing: for evaluation and analysis.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

bool grad_enabled();
int64_t live_nodes();                               // for tests: how many graph nodes exist
std::vector<const Node*> reached(const Var& loss);  // every node that a value depends on, in creation order

}  // namespace clearhead::inline CLEARHEAD_REAL

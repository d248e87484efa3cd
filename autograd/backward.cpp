// The engine: recording, walking back, adding up. Read var.h first.
#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "autograd/var.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

thread_local bool recording = true;
std::atomic<int64_t> nodes_alive{0};
std::atomic<uint64_t> next_id{0};

std::shared_ptr<Node> make_node(const char* op, const Shape& shape) {
  ++nodes_alive;
  auto node = std::make_shared<Node>();
  node->op = op;
  node->id = next_id++;
  node->shape = shape;
  return node;
}

std::vector<std::shared_ptr<Node>> collect(const std::shared_ptr<Node>& from) {
  std::vector<std::shared_ptr<Node>> found, todo{from};
  std::unordered_set<const Node*> seen{from.get()};
  while (!todo.empty()) {
    auto n = std::move(todo.back());
    todo.pop_back();
    require(!n->released, "backward", "'", n->op, "' was already differentiated and has freed what it saved; ",
            "run the forward pass again (or add the losses first and call backward once)");
    for (const auto& in : n->inputs)
      if (in && seen.insert(in.get()).second) todo.push_back(in);
    found.push_back(std::move(n));
  }
  // An op can only use values that exist already, so the order of creation is a topological order: sorting by number
  // replaces the depth-first search of the textbooks, and its recursion.
  std::ranges::sort(found, {}, [](const auto& n) { return n->id; });
  return found;
}

}  // namespace

Var Var::param(Tensor value) {
  require(value.defined() && value.is_contiguous(), "Var::param", "needs a contiguous tensor, got shape ",
          value.shape());
  Var v(std::move(value));
  v.node_ = make_node("param", v.shape());
  return v;
}

const Tensor& Var::grad() const {
  static const Tensor none;
  return node_ ? node_->grad : none;
}

void Var::clear_grad() const {
  if (node_) node_->grad = Tensor();
}

Var record(const char* op, Tensor value, const std::vector<Var>& inputs, Pullback pullback) {
  Var y(std::move(value));
  if (!recording || std::ranges::none_of(inputs, &Var::needs_grad)) return y;
  y.node_ = make_node(op, y.shape());
  const auto watch = [&](const Tensor& t) { y.node_->watched.push_back({t.storage(), t.storage()->version()}); };
  for (const Var& in : inputs) {
    y.node_->inputs.push_back(in.node());
    watch(in.value());
  }
  watch(y.value());
  y.node_->pullback = std::move(pullback);
  return y;
}

// Why newest first: a value that was used twice must have both contributions before its own pullback runs, and every
// user of a value is newer than the value.
void backward(const Var& loss) {
  require(loss.value().defined() && loss.value().numel() == 1, "backward",
          "the loss must have one element, its shape is ", loss.shape());
  require(loss.node() != nullptr, "backward", "the loss depends on no parameter (a NoGrad scope, or constants only?)");
  auto order = collect(loss.node());
  loss.node()->accumulate(Tensor(loss.shape(), 1), "backward");  // dL/dL = 1
  for (; !order.empty(); order.pop_back()) {                     // popping frees memory as we go
    Node& n = *order.back();
    if (n.leaf()) continue;  // leaves keep their gradient for the optimizer
    n.check_versions();
    if (const Tensor dy = std::exchange(n.grad, Tensor()); dy.defined()) {
      Adjoints d(n);
      n.pullback(dy, d);
    }
    n.release();
  }
}

// The first gradient that arrives is borrowed: add(a, b) hands the same dy to both inputs, and copying it would be
// waste. The second one needs a sum of its own, for which one of the two may be reused if nobody else holds it. A leaf
// always owns its gradient, since an optimizer may scale it in place.
void Node::accumulate(Tensor g, const char* from) {
  require(g.shape() == shape, "backward", "'", from, "' returned a gradient of shape ", g.shape(),
          " for a value of shape ", shape);
  if (!grad.defined()) {
    grad = leaf() && !(g.unique() && g.is_contiguous()) ? g.clone() : std::move(g);
  } else if (own_grad()) {
    add_into(grad, g);
  } else if (g.unique() && g.is_contiguous()) {
    add_into(g, grad);
    grad = std::move(g);
  } else {
    grad = add(grad, g);
  }
}

void Node::accumulate_product(const Tensor& a, const Tensor& b, const char* from) {
  if (own_grad())
    add_matmul(grad, a, b);
  else
    accumulate(matmul(a, b), from);
}

void Node::check_versions() const {
  for (size_t i = 0; i < watched.size(); ++i)
    if (const auto storage = watched[i].storage.lock())
      require(storage->version() == watched[i].version, "backward",
              i + 1 < watched.size() ? "an input of '" : "the output of '", op, "' ", shape,
              " was written to after the forward pass (version ", storage->version(), ", was ", watched[i].version,
              "); write to a clone, or after backward");
}

void Node::release() {
  released = true;
  pullback = [](const Tensor&, Adjoints&) {};  // frees what was captured; not empty, so this is still no leaf
  inputs.clear();
  watched.clear();
}

// Not recursive: destroying the last owner of a long chain would otherwise overflow the stack, one frame per node.
Node::~Node() {
  --nodes_alive;
  std::vector<std::shared_ptr<Node>> todo = std::move(inputs);
  while (!todo.empty()) {
    const auto n = std::move(todo.back());
    todo.pop_back();
    if (!n || n.use_count() > 1) continue;
    std::ranges::move(n->inputs, std::back_inserter(todo));
    n->inputs.clear();
  }
}

NoGrad::NoGrad() : before_(std::exchange(recording, false)) {}
NoGrad::~NoGrad() { recording = before_; }
bool grad_enabled() { return recording; }
int64_t live_nodes() { return nodes_alive; }

std::vector<const Node*> reached(const Var& loss) {
  std::vector<const Node*> nodes;
  if (loss.node())
    for (const auto& n : collect(loss.node())) nodes.push_back(n.get());  // alive: the loss holds them
  return nodes;
}

}  // namespace clearhead::inline CLEARHEAD_REAL

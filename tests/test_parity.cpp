// Parity with PyTorch. tests/parity/*.safetensors are models with a batch, and the logits, loss, gradients and ten
// steps of AdamW that an independent implementation in PyTorch computed from them in double (parity/make_fixtures.py).
// Here ours does the same from the same file, with the fused kernels and with the definitions.
//
// Tensors agree if the largest difference is below 1e-5 of the largest number in the tensor. b_K is special: it adds
// the same to all scores of a destination, so its gradient is zero but for rounding; it is compared to b_Q's size.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "nn/model_file.h"

namespace clearhead {
namespace {

const std::string folder = CLEARHEAD_SOURCE_DIR "/tests/parity/";
constexpr double tolerance = 1e-5, trajectory_tolerance = 1e-4;

double largest(const Tensor& t) {
  double most = 0;
  for (Real x : t.contiguous().flat()) most = std::max(most, std::abs(double(x)));
  return most;
}

double worst = 0;  // of a test, for the log: --gtest_output=xml

void expect_close(const std::string& what, const Tensor& ours, const Tensor& theirs, double size) {
  ASSERT_EQ(ours.shape(), theirs.shape()) << what;
  const Tensor a = ours.contiguous(), b = theirs.contiguous();
  double most = 0;
  for (size_t i = 0; i < a.flat().size() && !std::isnan(most); ++i) {
    const double difference = std::abs(double(a.flat()[i]) - double(b.flat()[i])) / size;
    if (!(difference <= most)) most = difference;  // also if it is NaN, which then stays
  }
  EXPECT_LE(most, tolerance) << what;
  worst = std::max(worst, most);
}

// W_Q, W_K, W_V are [d_model, n_heads * d_head] in memory, [n_heads, d_model, d_head] in the file; the others differ
// only in how they are cut.
Tensor in_file_axes(const std::string& name, const Tensor& t, const Shape& shape) {
  const bool columns = name.ends_with(".W_Q") || name.ends_with(".W_K") || name.ends_with(".W_V");
  if (!columns) return t.reshape(shape);
  Tensor out(shape);
  const int64_t H = shape[0], d = shape[1], h = shape[2];
  const auto to = out.mut();
  for (int64_t head = 0; head < H; ++head)
    for (int64_t row = 0; row < d; ++row)
      for (int64_t col = 0; col < h; ++col)
        to[size_t((head * d + row) * h + col)] = t.flat()[size_t(row * H * h + head * h + col)];
  return out;
}

Tokens tokens_of(const Tensor& t) {
  Tokens tokens(t.dim(0), t.dim(1));
  std::ranges::transform(t.flat(), tokens.ids.begin(), [](Real x) { return int32_t(x); });
  return tokens;
}

struct Parity : ::testing::TestWithParam<std::tuple<std::string, Kernel>> {
  std::string path = folder + std::get<0>(GetParam()) + ".safetensors";
  TensorFile file = load_tensors(path);
  Transformer model = load_model(path);
  Tokens tokens = tokens_of(file.tensors.at("in.tokens")), targets = tokens_of(file.tensors.at("in.targets"));
  std::vector<double> losses = nlohmann::json::parse(file.metadata.at("parity.losses"));

  Parity() {
    model.use(std::get<1>(GetParam()));
    worst = 0;
  }
  ~Parity() override {
    std::ostringstream text;
    text << worst;
    RecordProperty("worst", text.str());
  }
};

TEST_P(Parity, Logits) {
  const Tensor& theirs = file.tensors.at("out.logits");
  expect_close("logits", model.logits(tokens).value(), theirs, largest(theirs));
}

TEST_P(Parity, LossAndEveryGradient) {
  const Var loss = model.loss(tokens, targets);
  EXPECT_NEAR(double(loss.value().item()) / losses[0], 1, tolerance);
  backward(loss);
  size_t compared = 0;
  for_each_param(model, [&](const std::string& name, Var& p) {
    const Tensor& theirs = file.tensors.at("grad." + name);
    const std::string sized = name.ends_with(".b_K") ? name.substr(0, name.size() - 3) + "b_Q" : name;
    ASSERT_TRUE(p.grad().defined()) << name;
    expect_close(name, in_file_axes(name, p.grad(), theirs.shape()), theirs, largest(file.tensors.at("grad." + sized)));
    ++compared;
  });
  const auto in_file = std::ranges::count_if(file.tensors, [](const auto& t) { return t.first.starts_with("grad."); });
  EXPECT_EQ(compared, size_t(in_file));
}

TEST_P(Parity, TenStepsOfAdamW) {
  const auto o = nlohmann::json::parse(file.metadata.at("parity.adamw"));
  const auto list = params(model);
  AdamW adam(list, {.beta1 = o["beta1"], .beta2 = o["beta2"], .eps = o["eps"], .weight_decay = o["weight_decay"]});
  for (size_t step = 0; step < losses.size(); ++step) {
    const Var loss = model.loss(tokens, targets);
    const double difference = std::abs(double(loss.value().item()) / losses[step] - 1);
    EXPECT_LE(difference, trajectory_tolerance) << "after " << step << " steps";
    worst = std::max(worst, difference);
    backward(loss);
    adam.step(o["lr"], clip_factor(global_norm(list), o["max_norm"]));
  }
}

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Parity,
                         ::testing::Combine(::testing::ValuesIn(fixtures()),
                                            ::testing::Values(Kernel::fused, Kernel::composed)),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) == Kernel::fused ? "_fused" : "_composed");
                         });

// Fixed sinusoids come from the file when a model is loaded, so the tests above would not notice ours.
TEST(ParityFixtures, SinusoidsAreOurs) {
  for (const std::string name : {"shortformer", "sinusoidal"}) {
    const TensorFile file = load_tensors(folder + name + ".safetensors");
    const Config config = config_from_json(nlohmann::json::parse(file.metadata.at("clearhead.config")));
    expect_close(name, sinusoids(config.n_ctx, config.d_model), file.tensors.at("pos_embed.W_pos"), 1);
  }
}

TEST(ParityFixtures, AreAllThere) { EXPECT_GE(fixtures().size(), 5U); }

}  // namespace
}  // namespace clearhead

// nn/circuits/ against dense matrices in double: tests/parity/circuits.json is what tests/parity/make_circuits.py computed
// of the model in shortformer.safetensors, without factors and without our code.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "nn/circuits/heads.h"
#include "nn/circuits/trace.h"
#include "nn/files.h"
#include "nn/model_file.h"
#include "nn/safetensors.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead {
namespace {

const std::string folder = CLEARHEAD_SOURCE_DIR "/tests/parity/";
constexpr double tolerance = 1e-4;  // of the largest number of a row, or of a score, which is about 1

struct CircuitParity : testing::Test {
  const nlohmann::json reference = nlohmann::json::parse(read_file(folder + "circuits.json"));
  const std::string model = folder + "shortformer.safetensors";
  const Weights w = weights_of(load_model(model));
  Tokens tokens = tokens_of("in.tokens"), targets = tokens_of("in.targets");
  const Trace t = trace(model_of(w), tokens);

  Tokens tokens_of(const std::string& name) const {
    const Tensor numbers = load_tensors(model).tensors.at(name);
    Tokens x(numbers.dim(0), numbers.dim(1));
    std::ranges::transform(numbers.flat(), x.ids.begin(), [](Real id) { return int32_t(id); });
    return x;
  }
};

void expect_row(const Tensor& table, bool column, const nlohmann::json& expected, const std::string& what) {
  double largest = 0;
  for (double x : expected) largest = std::max(largest, std::abs(x));
  ASSERT_GT(largest, 0) << what;
  ASSERT_EQ(int64_t(expected.size()), table.dim(column ? 0 : 1)) << what;
  for (int64_t i = 0; i < int64_t(expected.size()); ++i)
    EXPECT_NEAR(double(column ? table.at({i, 5}) : table.at({5, i})), double(expected[size_t(i)]), tolerance * largest)
        << what << " " << i;
}

TEST_F(CircuitParity, CircuitsAndScoresOfEveryHead) {
  ASSERT_EQ(reference["heads"].size(), 6u);
  for (const auto& head : reference["heads"]) {
    const HeadId id{head["layer"], head["head"]};
    const Factored qk = token_qk(w, at(w, id)), ov = token_ov(w, at(w, id));
    expect_row(qk.dense(), false, head["qk_row"], to_string(id) + " QK of a destination");
    expect_row(qk.dense(), true, head["qk_column"], to_string(id) + " QK of a source");
    expect_row(ov.dense(), false, head["ov_row"], to_string(id) + " OV of a source");
    expect_row(ov.dense(), true, head["ov_column"], to_string(id) + " OV of an output");
    expect_row(position_qk(w, at(w, id)).dense(), false, head["position_row"], to_string(id) + " QK of positions");

    const Copying c = copying(ov);
    EXPECT_NEAR(c.eigenvalues, head["copying"], tolerance) << to_string(id);
    EXPECT_NEAR(c.own_is_first, head["own_is_first"], tolerance) << to_string(id);
    auto eigenvalues = ov.eigenvalues();
    std::ranges::sort(eigenvalues, [](auto a, auto b) {  // conjugates have the same modulus but for rounding
      return std::abs(std::abs(a) - std::abs(b)) > 1e-3 ? std::abs(a) > std::abs(b) : a.imag() > b.imag();
    });
    ASSERT_EQ(eigenvalues.size(), head["ov_eigenvalues"].size());
    for (size_t i = 0; i < eigenvalues.size(); ++i) {
      const double size = std::abs(eigenvalues[0]);
      EXPECT_NEAR(eigenvalues[i].real(), head["ov_eigenvalues"][i][0], tolerance * size) << to_string(id) << " " << i;
      EXPECT_NEAR(eigenvalues[i].imag(), head["ov_eigenvalues"][i][1], tolerance * size) << to_string(id) << " " << i;
    }

    const Tensor& pattern = t.patterns[size_t(id.layer)];
    const std::map<std::string, double> scores{{"previous", previous_token_scores(pattern)[size_t(id.head)]},
                                               {"current", current_token_scores(pattern)[size_t(id.head)]},
                                               {"first", first_token_scores(pattern)[size_t(id.head)]},
                                               {"duplicate", duplicate_token_scores(pattern, tokens)[size_t(id.head)]},
                                               {"prefix", prefix_matching_scores(pattern, tokens)[size_t(id.head)]}};
    ASSERT_EQ(scores.size(), head["scores"].size());
    for (const auto& [name, score] : scores)
      EXPECT_NEAR(score, head["scores"][name], tolerance) << to_string(id) << " " << name;
  }
}

TEST_F(CircuitParity, CompositionAndMatching) {
  ASSERT_EQ(reference["composition"].size(), 9u);
  for (const auto& pair : reference["composition"]) {
    const Head &one = w.layers[0][pair["first"]], &two = w.layers[1][pair["second"]];
    for (Through through : {Through::queries, Through::keys, Through::values})
      EXPECT_NEAR(composition(through, one, two), pair[name(through)], tolerance) << pair << name(through);
  }
  const auto previous = previous_token_scores(t.patterns[0]);
  for (size_t h = 0; h < 3; ++h)
    EXPECT_NEAR(copying_score(matching(w, previous, w.layers[1][h])), reference["matching"][h], tolerance) << h;
}

TEST_F(CircuitParity, LossByOrder) {
  const auto streams = streams_by_order(w, t.patterns, tokens);
  ASSERT_EQ(streams.size(), reference["loss_by_order"].size());
  Tensor sum(streams[0].shape());
  for (size_t order = 0; order < streams.size(); ++order) {
    add_into(sum, streams[order]);
    const Tensor log_p = log_softmax(matmul(sum, w.W_U));
    double loss = 0, n = 0;
    for (size_t i = 0; i < targets.ids.size(); ++i)
      if (targets.ids[i] >= 0) loss -= double(log_p.data()[int64_t(i) * w.V() + targets.ids[i]]), ++n;
    EXPECT_NEAR(loss / n, reference["loss_by_order"][order], 10 * tolerance) << order;
  }
}

}  // namespace
}  // namespace clearhead

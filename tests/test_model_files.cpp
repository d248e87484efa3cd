// Model files and checkpoints: what is saved comes back bit for bit, under TransformerLens's names and axes, and what
// does not fit is refused in words. The file format itself: test_files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/files.h"
#include "nn/model_file.h"
#include "tensor/kernels.h"
#include "tests/helpers.h"

using namespace clearhead;
namespace fs = std::filesystem;

namespace {

using ModelFiles = InFolder;

Config config(bool everything) {
  Config c;
  c.d_vocab = 7, c.d_model = 6, c.n_layers = 2, c.n_heads = 3, c.d_head = 2, c.n_ctx = 8;
  if (everything) c.positions = Positions::learned, c.biases = c.layer_norm = true, c.d_mlp = 5, c.dropout = 0.25;
  return c;
}

Transformer random_model(const Config& c, uint64_t seed = 1) {
  Transformer model(c, seed);
  Rng rng(seed, Stream::analysis);
  for_each_param(model, [&](const std::string&, Var& p) {
    Tensor t = p.value();
    add_into(t, random_normal(t.shape(), 0.3, rng));
  });
  return model;
}

Tokens some_tokens() {
  Tokens t(2, 8);
  for (size_t i = 0; i < t.ids.size(); ++i) t.ids[i] = int32_t(i * i % 7);
  return t;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.flat().data(), b.flat().data(), a.flat().size_bytes()) == 0;
}

TEST_F(ModelFiles, ASavedModelComesBack) {
  for (const bool everything : {false, true}) {
    Transformer model = random_model(config(everything));
    save_model(path("m"), model);
    Transformer back = load_model(path("m"));
    EXPECT_TRUE(same_bits(model.logits(some_tokens()).value(), back.logits(some_tokens()).value()));
    EXPECT_EQ(to_json(back.config), to_json(model.config));
    EXPECT_EQ(count_params(back), count_params(model));
    const Var loss = back.loss(some_tokens(), some_tokens());
    EXPECT_EQ(audit(back, loss), "");  // it can go on training
    save_model(path("again"), back);
    EXPECT_EQ(read_file(path("again")), read_file(path("m")));
  }
}

TEST_F(ModelFiles, HaveTheNamesAndAxesOfTransformerLens) {
  const Transformer model = random_model(config(true));
  save_model(path("m"), model);
  const TensorFile file = load_tensors(path("m"));
  const std::pair<const char*, Shape> shapes[] = {{"embed.W_E", {7, 6}},
                                                  {"pos_embed.W_pos", {8, 6}},
                                                  {"unembed.W_U", {6, 7}},
                                                  {"unembed.b_U", {7}},
                                                  {"ln_final.w", {6}},
                                                  {"blocks.1.ln1.w", {6}},
                                                  {"blocks.1.ln1.b", {6}},
                                                  {"blocks.1.attn.W_Q", {3, 6, 2}},
                                                  {"blocks.1.attn.W_K", {3, 6, 2}},
                                                  {"blocks.1.attn.W_V", {3, 6, 2}},
                                                  {"blocks.1.attn.W_O", {3, 2, 6}},
                                                  {"blocks.1.attn.b_Q", {3, 2}},
                                                  {"blocks.1.attn.b_O", {6}},
                                                  {"blocks.1.mlp.W_in", {6, 5}},
                                                  {"blocks.1.mlp.b_in", {5}},
                                                  {"blocks.1.mlp.W_out", {5, 6}},
                                                  {"blocks.1.mlp.b_out", {6}}};
  for (const auto& [name, shape] : shapes) EXPECT_EQ(error_of([&] { file.at(name, shape); }), "(no error)");
  const Attention& attn = model.blocks[1].attn;
  for (int64_t h = 0; h < 3; ++h) {  // head h: columns of W_Q, W_K, W_V, and rows of W_O
    const auto saved = [&](const char* name) {
      return file.tensors.at(std::string("blocks.1.attn.") + name).select(0, h).contiguous();
    };
    EXPECT_TRUE(same_bits(saved("W_Q"), attn.W_Q.value().narrow(1, h * 2, 2).contiguous()));
    EXPECT_TRUE(same_bits(saved("W_K"), attn.W_K.value().narrow(1, h * 2, 2).contiguous()));
    EXPECT_TRUE(same_bits(saved("W_V"), attn.W_V.value().narrow(1, h * 2, 2).contiguous()));
    EXPECT_TRUE(same_bits(saved("W_O"), attn.W_O.value().narrow(0, h * 2, 2).contiguous()));
    EXPECT_TRUE(same_bits(saved("b_V"), attn.b_V->value().narrow(0, h * 2, 2).contiguous()));
  }
}

TEST_F(ModelFiles, WhatDoesNotFitIsNamed) {
  save_model(path("m"), random_model(config(false)));
  const TensorFile good = load_tensors(path("m"));
  const auto error = [&](auto change) {
    TensorFile file = good;
    change(file);
    save_tensors(path("bad"), file);
    return error_of([&] { load_model(path("bad")); });
  };
  EXPECT_EQ(error([](TensorFile& f) { f.tensors.erase("blocks.1.attn.W_K"); }),
            path("bad") + ": tensor 'blocks.1.attn.W_K' is missing");
  EXPECT_EQ(error([](TensorFile& f) {
              f.tensors["blocks.0.attn.W_O"] = Tensor({6, 6});
            }),
            path("bad") + ": tensor 'blocks.0.attn.W_O' has shape [6, 6], not [3, 2, 6]");
  EXPECT_EQ(error([](TensorFile& f) { f.metadata.clear(); }),
            path("bad") + ": has no 'clearhead.config' in its metadata, so the model cannot be rebuilt");
  EXPECT_EQ(error([](TensorFile& f) { f.metadata["clearhead.config"] = "{"; }),
            path("bad") + ": 'clearhead.config' is not JSON");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    return error([&](TensorFile& f) {
      auto c = nlohmann::json::parse(f.metadata["clearhead.config"]);
      c[key] = value;
      f.metadata["clearhead.config"] = c.dump();
    });
  };
  EXPECT_EQ(with("positions", "rotary"), "config: unknown positions 'rotary'");
  EXPECT_EQ(with("n_heads", 0), "config: n_heads must be at least 1, got 0");
  EXPECT_TRUE(with("n_heads", "three").starts_with("config: not a model's config: "));
  EXPECT_EQ(with("d_vocab", 8), path("bad") + ": tensor 'embed.W_E' has shape [7, 6], not [8, 6]");
}

TEST_F(ModelFiles, ALostFileIsNamed) {
  EXPECT_EQ(error_of([&] { load_model(path("no")); }), path("no") + ": cannot read: No such file or directory");
  EXPECT_EQ(error_of([&] { load_model(folder); }), folder + ": is a folder, not a file");
}

// A model and its optimizer, after some steps.
struct Training {
  Transformer model;
  AdamW adam;
  explicit Training(uint64_t seed, int steps = 0) : model(random_model(config(true), seed)), adam(params(model)) {
    for (int i = 0; i < steps; ++i) step();
  }
  void step() {
    backward(model.loss(some_tokens(), some_tokens()));
    adam.step(0.01);
  }
};

const nlohmann::json run{{"seed", 3}, {"train", {{"lr", 0.5}, {"steps", 60}}}};

TEST_F(ModelFiles, ACheckpointGoesOnBitForBit) {
  Training a(1, 5);
  save_checkpoint(path("c"), named_params(a.model), a.adam, {.step = 5}, run);
  Training b(2, 1);  // everything different
  EXPECT_EQ(load_checkpoint(path("c"), named_params(b.model), b.adam, run).step, 5);
  EXPECT_EQ(b.adam.steps, 5);
  for (int i = 0; i < 3; ++i) a.step(), b.step();
  const auto p = params(a.model), q = params(b.model);
  for (size_t i = 0; i < p.size(); ++i) {
    EXPECT_TRUE(same_bits(p[i].value(), q[i].value()));
    EXPECT_TRUE(same_bits(a.adam.m()[i], b.adam.m()[i]));
    EXPECT_TRUE(same_bits(a.adam.v()[i], b.adam.v()[i]));
  }
}

TEST_F(ModelFiles, ACheckpointOfOtherSettingsIsRefused) {
  Training a(1);
  save_checkpoint(path("c"), named_params(a.model), a.adam, {}, run);
  nlohmann::json other = run;
  other["train"]["steps"] = 70;
  const auto load = [&](const nlohmann::json& now) {
    return error_of([&] { load_checkpoint(path("c"), named_params(a.model), a.adam, now); });
  };
  const std::string advice = "; give the same options, or another --out";
  EXPECT_EQ(load(other), path("c") + ": belongs to a run with other settings: /train/steps was 60, is now 70" + advice);
  other = run;
  other["new"] = true;
  EXPECT_EQ(load(other), path("c") + ": belongs to a run with other settings: /new was null, is now true" + advice);
  other = run;
  other.erase("seed");
  EXPECT_EQ(load(other), path("c") + ": belongs to a run with other settings: /seed was 3, is now null" + advice);
  save_model(path("m"), a.model);
  EXPECT_EQ(error_of([&] { load_checkpoint(path("m"), named_params(a.model), a.adam, run); }),
            path("m") + ": is not a checkpoint (no 'clearhead.checkpoint' in its metadata)");
}

TEST_F(ModelFiles, ADamagedCheckpointIsRefused) {
  Training a(1, 2);
  save_checkpoint(path("c"), named_params(a.model), a.adam, {.step = 2}, run);
  const std::string whole = read_file(path("c"));
  for (size_t n = 0; n < whole.size(); n += 101) {
    std::ofstream(path("d"), std::ios::binary) << whole.substr(0, n);
    EXPECT_TRUE(error_of([&] { load_checkpoint(path("d"), named_params(a.model), a.adam, run); }).starts_with(path("d") + ": ")) << n;
  }
  TensorFile file = load_tensors(path("c"));
  file.tensors.erase("adam.v.unembed.W_U");
  save_tensors(path("d"), file);
  EXPECT_EQ(error_of([&] { load_checkpoint(path("d"), named_params(a.model), a.adam, run); }),
            path("d") + ": tensor 'adam.v.unembed.W_U' is missing");
  file.metadata["clearhead.checkpoint"] = "[]";
  save_tensors(path("d"), file);
  EXPECT_EQ(error_of([&] { load_checkpoint(path("d"), named_params(a.model), a.adam, run); }),
            path("d") + ": 'clearhead.checkpoint' is broken");
}

}  // namespace

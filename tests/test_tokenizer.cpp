// Tokenizers: what goes in comes out, saved ones load equal, and each bad file, size or text is one clear line.
#include <gtest/gtest.h>

#include <set>

#include "tests/texts.h"

TEST(Tokenizer, BpeAndByteRoundTripAnyBytes) {
  const Tokenizer bpe = Tokenizer::train(Kind::bpe, babble(1, 400) + "def f(x):\n    return [x, 'é']  # ok\n", 450);
  std::string all_bytes;
  for (int i = 0; i < 512; ++i) all_bytes += char(i * 7);
  const std::vector<std::string> texts = {"",
                                          " ",
                                          "  ",
                                          "\n",
                                          "\n\n \n",
                                          "bake bake",
                                          " lo  lo   mir ",
                                          "\ttab\tand\r\n",
                                          "\"curly\" “quotes” — dashes…",
                                          "if (x) {\n\treturn a[b] != c;\n}\n",
                                          "你好，世界",
                                          "\U0001F600 x\u0301",
                                          "a\u2581b\u2581",
                                          "\u2585\u2585",
                                          "\uFEFF",
                                          "<s></s><unk><bos><0x41>",
                                          "\f",
                                          std::string("zero\0byte", 9),
                                          "\xFF\xC3",
                                          "half \xE4\xBD",
                                          "\xED\xA0\x80",
                                          all_bytes,
                                          babble(2, 50)};
  for (const Tokenizer& tokenizer : {bpe, Tokenizer()})
    for (const std::string& text : texts) {
      const auto ids = tokenizer.encode(text);
      EXPECT_EQ(tokenizer.decode(ids), text);
      for (int32_t id : ids) {
        EXPECT_TRUE(id >= 0 && id < tokenizer.vocab_size());
        EXPECT_NE(id, tokenizer.bos());
      }
    }
}

TEST(Tokenizer, BpeIsCompactAndItsSizesAreExact) {
  const std::string text = babble(1, 400);
  const Tokenizer small = Tokenizer::train(Kind::bpe, text, 300), large = Tokenizer::train(Kind::bpe, text, 450);
  EXPECT_EQ(small.vocab_size(), 300);
  EXPECT_EQ(large.vocab_size(), 450);
  EXPECT_LT(small.encode(text).size(), text.size());
  EXPECT_LT(large.encode(text).size(), small.encode(text).size());
  EXPECT_EQ(large.encode("\n\n").size(), 2u);
}

TEST(Tokenizer, WordRoundTripsKnownWordsAndMarksUnknownOnes) {
  const Tokenizer word = Tokenizer::train(Kind::word, "the cat sat, the cat didn't.\n  The x_1 cat!\n", 14);
  for (const std::string text : {"the cat sat", "the cat didn't.\n  The x_1 cat!", "\n\n", "  The cat", " "})
    EXPECT_EQ(word.decode(word.encode(text)), text);
  EXPECT_EQ(word.encode("the cat sat").size(), 3u);
  EXPECT_EQ(word.decode(word.encode("the dog sat")), "the<unk> sat");
  EXPECT_EQ(word.piece(2), "·cat");  // the most frequent
  EXPECT_EQ(word.encode(" cat"), std::vector<int32_t>{2});
}

TEST(Tokenizer, PiecesArePrintable) {
  const Tokenizer byte;
  EXPECT_EQ(byte.piece('a'), "a");
  EXPECT_EQ(byte.piece(' '), "·");
  EXPECT_EQ(byte.piece('\n'), "\\n");
  EXPECT_EQ(byte.piece('\t'), "\\t");
  EXPECT_EQ(byte.piece(0xE4), "<0xE4>");
  EXPECT_EQ(byte.piece(0), "<0x00>");
  EXPECT_EQ(byte.piece(byte.bos()), "<bos>");
  EXPECT_EQ(byte.decode({{byte.bos(), 'x'}}), "x");
  const Tokenizer bpe = Tokenizer::train(Kind::bpe, babble(1, 200), 300);
  EXPECT_EQ(bpe.piece(bpe.bos()), "<bos>");
  EXPECT_EQ(bpe.piece(0), "<unk>");
  EXPECT_EQ(bpe.piece(bpe.encode("\n")[0]), "\\n");
  EXPECT_EQ(error_of([&] { byte.piece(257); }), "tokenizer: token id 257 is not in 0 .. 256");
  EXPECT_EQ(error_of([&] { bpe.decode({{-1}}); }), "tokenizer: token id -1 is not in 0 .. 299");
}

TEST(Tokenizer, TrainingIsDeterministic) {
  const std::string text = babble(3, 2000);
  for (Kind kind : {Kind::bpe, Kind::word})
    EXPECT_EQ(Tokenizer::train(kind, text, 300).to_json(), Tokenizer::train(kind, text, 300).to_json());
}

TEST_F(CorpusFiles, SavedTokenizersLoadEqual) {
  const std::string text = babble(1, 300);
  for (const auto& [kind, size] : {std::pair(Kind::byte, 257), {Kind::word, 100}, {Kind::bpe, 350}}) {
    const Tokenizer saved = Tokenizer::train(kind, text, size);
    saved.save(path("tokenizer.json"));
    const Tokenizer loaded = Tokenizer::load(path("tokenizer.json"));
    EXPECT_EQ(loaded.kind(), kind);
    EXPECT_EQ(loaded.bos(), saved.bos());
    EXPECT_EQ(loaded.vocab_size(), size);
    EXPECT_EQ(loaded.encode(text), saved.encode(text));
    for (int32_t id = 0; id < size; ++id) EXPECT_EQ(loaded.piece(id), saved.piece(id));
  }
}

TEST_F(CorpusFiles, BadTokenizerFilesAreOneClearLine) {
  const std::string p = path("t.json");
  const auto said = [&](const std::string& contents) {
    file("t.json", contents);
    return error_of([&] { Tokenizer::load(p); });
  };
  EXPECT_EQ(error_of([&] { Tokenizer::load(path("none")); }),
            path("none") + ": cannot read: No such file or directory");
  EXPECT_EQ(said("not json"), p + ": is not a tokenizer file");
  EXPECT_EQ(said(R"({"format": "other"})"), p + ": is not a tokenizer file");
  EXPECT_EQ(said(R"({"format": "clearhead-tokenizer", "kind": "runes"})"),
            p + " > tokenizer: unknown kind 'runes': byte, word or bpe");
  EXPECT_EQ(said(R"({"format": "clearhead-tokenizer", "kind": "bpe", "vocab_size": 300, "sentencepiece": "!!"})"),
            p + " > tokenizer: the model is not base64");
  EXPECT_EQ(said(R"({"format": "clearhead-tokenizer", "kind": "bpe", "vocab_size": 300, "sentencepiece": "AAAA"})"),
            p + " > tokenizer: the SentencePiece model is damaged");
  EXPECT_EQ(said(R"({"format": "clearhead-tokenizer", "kind": "word", "vocab_size": 5, "words": ["a"]})"),
            p + " > tokenizer: has 3 tokens and claims 5");
  EXPECT_TRUE(
      said(R"({"format": "clearhead-tokenizer", "kind": "word"})").starts_with(p + " > tokenizer: is damaged: "));
  EXPECT_TRUE(scope().empty());
}

TEST(Tokenizer, BadSizesAndTextsAreOneClearLine) {
  const std::string text = babble(1, 100);
  const auto said = [](Kind kind, std::string_view t, int size) {
    return error_of([&] { Tokenizer::train(kind, t, size); });
  };
  EXPECT_EQ(said(Kind::byte, text, 300), "tokenizer: vocab_size must be 257 for byte (256 bytes and <bos>), got 300");
  EXPECT_EQ(said(Kind::bpe, text, 0), "tokenizer: vocab_size must be 261 to 65536 for bpe, got 0");
  EXPECT_EQ(said(Kind::bpe, text, 100000), "tokenizer: vocab_size must be 261 to 65536 for bpe, got 100000");
  EXPECT_EQ(
      said(Kind::bpe, text, 262),
      "tokenizer: vocab_size 262 is too small for bpe: this text needs 280 for 256 bytes, 20 characters and 4 others");
  EXPECT_EQ(Tokenizer::train(Kind::bpe, text, 280).vocab_size(), 280);
  EXPECT_EQ(said(Kind::bpe, "ab ab", 4000),
            "tokenizer: vocab_size 4000 does not fit this text: Vocabulary size too high (4000). Please set it to a "
            "value <= 265.");
  EXPECT_EQ(said(Kind::bpe, " \n\t\n", 300),
            "tokenizer: there is no text to train on: no letter, digit or punctuation mark");
  EXPECT_EQ(said(Kind::bpe, "", 300), "tokenizer: there is no text to train on: no letter, digit or punctuation mark");
  EXPECT_EQ(said(Kind::bpe, "ab \xFF", 300), "tokenizer: document 0 is not UTF-8 at byte 3");
  EXPECT_EQ(said(Kind::word, text, 2), "tokenizer: vocab_size must be 3 to 65536 for word, got 2");
  EXPECT_EQ(said(Kind::word, "a b a", 100),
            "tokenizer: vocab_size 100 does not fit this text: it has only 3 different words (and <unk>, <bos>)");
  EXPECT_EQ(error_of([] { Tokenizer::kind_from("char"); }), "tokenizer: unknown kind 'char': byte, word or bpe");
  EXPECT_EQ(Tokenizer::kind_from("bpe"), Kind::bpe);
}

TEST(Utf8, InvalidBytesAreFound) {
  for (const std::string good : {"", "a", "é", "\uFFFD", "你", "\U0010FFFF", "\uD7FF", "\uE000"})
    EXPECT_EQ(first_invalid_utf8(good), -1) << good;
  for (const std::string bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE4\xBD", "\xC3(", "\xFF"})
    EXPECT_EQ(first_invalid_utf8("ok" + bad), 2);
}

// Tokenizers and texts: what goes in comes out, what is held out stays out, and each bad file is one clear line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "experiments/common/corpus.h"
#include "experiments/common/token_cache.h"
#include "nn/files.h"
#include "tensor/error.h"
#include "tensor/parallel.h"
#include "tests/helpers.h"

using namespace clearhead;
using Kind = Tokenizer::Kind;

namespace {

// Sentences over 400 made-up words, a line each.
std::string babble(uint64_t seed, int lines) {
  Rng rng(seed);
  const char* syllables[] = {"ba", "ke", "lo", "mir", "tun", "sha", "ver", "op", "qu", "zi"};
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 9; ++word) {
      if (word > 0) text += ' ';
      const int64_t first = rng.below(10), second = rng.below(10);
      text += std::string(syllables[first]) + syllables[second] +
              syllables[(first * 3 + second * second + rng.below(4)) % 10];
    }
    text += line % 7 == 6 ? ".\n\n" : ",\n";
  }
  return text;
}

class CorpusFiles : public InFolder {
 protected:
  std::string file(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    write_file(path(name), contents);
    return path(name);
  }
  CorpusOptions options(std::vector<std::string> files) const {
    return {.files = std::move(files), .vocab_size = 420, .data_dir = path("data"), .cache_dir = path("cache")};
  }
  // What load_corpus says about one file with these contents.
  std::string complaint(const std::string& contents) const {
    return error_of([&] { load_corpus(options({file("a.txt", contents)})); });
  }
};

}  // namespace

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

TEST(Documents, SplitAtLinesThatHoldOneFormFeed) {
  using Documents = std::vector<std::string_view>;
  EXPECT_EQ(split_documents("a\nb\n\f\nc\n"), (Documents{"a\nb", "c"}));
  EXPECT_EQ(split_documents("a\fb\n \f\nc"), (Documents{"a\fb\n \f\nc"}));
  EXPECT_EQ(split_documents("\f\na\n\f\n\f\nb\n\f"), (Documents{"a", "b"}));
  EXPECT_EQ(split_documents(""), Documents{});
}

TEST(Documents, NoneIsBothTrainedOnAndHeldOut) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 200; ++i) texts.push_back(babble(i, 10 + int(i % 20)));
  std::vector<std::string_view> documents(texts.begin(), texts.end());
  documents.push_back(texts[7]);  // the same document again, which a split could put on both sides
  const Split split = hold_out(documents);
  EXPECT_EQ(split.note, "repeated documents dropped: 1");
  EXPECT_EQ(split.train.size() + split.held_out.size(), 200u);
  std::set<std::string_view> train(split.train.begin(), split.train.end());
  size_t held = 0, total = 0;
  for (std::string_view text : split.held_out) {
    EXPECT_FALSE(train.contains(text));
    held += text.size();
  }
  for (const std::string& text : texts) total += text.size();
  EXPECT_GT(double(held), 0.04 * double(total));
  EXPECT_LE(double(held), 0.05 * double(total));

  std::reverse(documents.begin(), documents.end());  // the order of the files does not matter
  EXPECT_EQ(hold_out(documents).held_out, split.held_out);
}

TEST(Documents, ASingleOneIsSplitNearItsEnd) {
  const std::string lines = babble(1, 100), solid(3000, 'x');
  std::string line = lines;
  std::ranges::replace(line, '\n', ' ');
  std::string wide;
  for (int i = 0; i < 1000; ++i) wide += "你";
  for (const std::string& text : {lines, line, solid, wide}) {
    const Split split = hold_out({text});
    ASSERT_EQ(split.train.size(), 1u);
    ASSERT_EQ(split.held_out.size(), 1u);
    EXPECT_EQ(std::string(split.train[0]) + std::string(split.held_out[0]), text);
    EXPECT_GE(double(split.held_out[0].size()), 0.05 * double(text.size()));
    EXPECT_LE(double(split.held_out[0].size()), 0.10 * double(text.size()));
    EXPECT_EQ(first_invalid_utf8(split.held_out[0]), -1);
  }
  EXPECT_TRUE(hold_out({lines}).train[0].ends_with('\n'));
  EXPECT_TRUE(hold_out({line}).train[0].ends_with(' '));
}

TEST_F(CorpusFiles, LoadsSetsAndFilesWithABosPerDocument) {
  const std::string a = babble(1, 200), b = babble(2, 200), c = babble(3, 12);
  file("data/code/train.txt", a + "\f\n" + b);
  file("data/code/held_out.txt", c);
  CorpusOptions set = options({});
  const Corpus corpus = load_corpus(set);
  EXPECT_EQ(corpus.name, "code");
  EXPECT_EQ(corpus.train_documents, 2);
  EXPECT_EQ(std::ranges::count(corpus.train, corpus.tokenizer.bos()), 2);
  EXPECT_EQ(corpus.train[0], corpus.tokenizer.bos());
  EXPECT_EQ(corpus.tokenizer.decode(corpus.held_out) + "\n\n", c + "\n");
  EXPECT_TRUE(corpus.summary().starts_with("code: 0.0")) << corpus.summary();
  EXPECT_GT(corpus.bytes_per_token(), 1.5);

  const Corpus mine = load_corpus(options({file("a.txt", "\xEF\xBB\xBF" + a), file("b.txt", b), file("c.txt", c)}));
  EXPECT_EQ(mine.name, "a.txt and 2 more");
  EXPECT_EQ(mine.train_documents, 2);
  EXPECT_EQ(mine.held_out_documents, 1);
  EXPECT_EQ(mine.held_out, corpus.held_out);

  std::string windows;
  for (char letter : a) windows += letter == '\n' ? "\r\n" : std::string(1, letter);
  EXPECT_EQ(load_corpus(options({file("w.txt", windows)})).train, load_corpus(options({file("u.txt", a)})).train);
}

TEST_F(CorpusFiles, ThreadsDoNotChangeTheTokens) {
  std::string text;
  for (uint64_t i = 0; i < 1500; ++i) text += babble(i, 3) + "\f\n";
  CorpusOptions plain = options({file("a.txt", text)});
  plain.cache_dir = "";
  set_num_threads(1);
  const Corpus one = load_corpus(plain);
  set_num_threads(3);
  const Corpus three = load_corpus(plain);
  EXPECT_EQ(one.train, three.train);
  EXPECT_EQ(one.tokenizer.to_json(), three.tokenizer.to_json());
  EXPECT_FALSE(std::filesystem::exists(path("cache")));
}

TEST_F(CorpusFiles, BadFilesAreOneClearLine) {
  const std::string text = babble(1, 100), a = path("a.txt");
  EXPECT_EQ(complaint(""), a + ": is empty");
  EXPECT_EQ(complaint("\xEF\xBB\xBF"), a + ": is empty");
  EXPECT_EQ(complaint("short\n"), a + ": is too short: 5 bytes of text, at least 1000 are needed");
  EXPECT_EQ(complaint("\n\f\n\n"), a + ": is too short: 0 bytes of text, at least 1000 are needed");
  EXPECT_EQ(complaint("abc" + std::string(1, '\0') + text), a + ": is not text: a zero byte at offset 3");
  EXPECT_EQ(complaint("abcd\xE4\xBD" + text), a + ": is not UTF-8: byte 0xE4 at offset 4");
  EXPECT_EQ(error_of([&] { load_corpus(options({path("none.txt")})); }),
            path("none.txt") + ": cannot read: No such file or directory");
  EXPECT_EQ(error_of([&] { load_corpus(options({path("")})); }), path("") + ": is a folder, not a file");
  EXPECT_EQ(error_of([&] { load_corpus(options({})); }),
            path("data") + "/code/train.txt: is not there; fetch it with scripts/fetch_text.sh code");
  CorpusOptions poems = options({});
  poems.set = "poems";
  EXPECT_EQ(error_of([&] { load_corpus(poems); }), "corpus: unknown text 'poems': code, prose, or files of your own");
}

TEST_F(CorpusFiles, TheCacheIsUsedAndADamagedOneIsMadeAnew) {
  const CorpusOptions o = options({file("a.txt", babble(1, 300))});
  const Corpus fresh = load_corpus(o);
  EXPECT_TRUE(fresh.notes.empty());
  std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(path("cache")), {});
  ASSERT_EQ(files.size(), 1u);  // and no temporary file
  const std::string cache = files[0].string(), whole = read_file(cache);

  const auto same_with = [&](const std::string& note) {
    const Corpus again = load_corpus(o);
    EXPECT_EQ(again.train, fresh.train);
    EXPECT_EQ(again.held_out, fresh.held_out);
    EXPECT_EQ(again.tokenizer.to_json(), fresh.tokenizer.to_json());
    EXPECT_EQ(again.notes, std::vector<std::string>{note});
  };
  same_with("token ids from " + cache);
  std::string lying = whole;  // the header claims more than there is, and the checksum is right
  lying.replace(lying.find("\"train\":") + 8, 1, "9");
  ASSERT_NE(lying, whole);
  std::string flipped = whole;
  flipped[whole.size() - 9] = char(flipped[whole.size() - 9] ^ 1);
  for (const std::string& bad :
       {std::string(), std::string("{}\n"), whole.substr(0, whole.size() / 2), flipped, lying, whole + "x"}) {
    write_file(cache, bad);
    same_with(cache + " is damaged: made anew");
    EXPECT_EQ(read_file(cache), whole);
  }

  // Another size or another text is another file.
  CorpusOptions larger = o;
  larger.vocab_size = 430;
  EXPECT_EQ(load_corpus(larger).tokenizer.vocab_size(), 430);
  file("a.txt", babble(2, 300));
  EXPECT_NE(load_corpus(o).train, fresh.train);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("cache")), {}), 3);

  CorpusOptions unwritable = o;
  unwritable.cache_dir = path("a.txt") + "/cache";
  const Corpus uncached = load_corpus(unwritable);
  ASSERT_EQ(uncached.notes.size(), 1u);
  EXPECT_TRUE(uncached.notes[0].starts_with("token ids are not kept for the next run: ")) << uncached.notes[0];
}

TEST_F(CorpusFiles, AGivenTokenizerIsUsed) {
  const Tokenizer given = Tokenizer::train(Kind::word, babble(1, 300), 50);
  given.save(path("tokenizer.json"));
  CorpusOptions o = options({file("a.txt", babble(2, 300))});
  o.tokenizer_file = path("tokenizer.json");
  for (int run = 0; run < 2; ++run) EXPECT_EQ(load_corpus(o).tokenizer.to_json(), given.to_json());
}

TEST(Windows, AreWithinBoundsAndDeterministic) {
  std::vector<int32_t> stream(100);
  for (size_t i = 0; i < stream.size(); ++i) stream[i] = int32_t(i);
  const auto runs = [](const Tokens& w) {
    for (int64_t b = 0; b < w.B; ++b)
      for (int64_t t = 1; t < w.T; ++t) EXPECT_EQ(w(b, t), w(b, 0) + t);
  };
  Rng one(5, Stream::data), two(5, Stream::data);
  const Tokens random = random_windows(stream, 2000, 10, one);
  runs(random);
  EXPECT_EQ(random.ids, random_windows(stream, 2000, 10, two).ids);
  EXPECT_NE(random.ids, random_windows(stream, 2000, 10, two).ids);
  EXPECT_EQ(*std::ranges::min_element(random.ids), 0);  // the first and the last place are drawn too
  EXPECT_EQ(*std::ranges::max_element(random.ids), 99);

  const Tokens all = consecutive_windows(stream, 30), some = consecutive_windows(stream, 10, 4);
  runs(all);
  runs(some);
  EXPECT_EQ(all.shape(), Shape({3, 30}));
  EXPECT_EQ(all(2, 0), 60);
  EXPECT_EQ(some.shape(), Shape({4, 10}));
  EXPECT_EQ((std::vector<int32_t>{some(0, 0), some(1, 0), some(2, 0), some(3, 0)}),
            (std::vector<int32_t>{0, 20, 50, 70}));
  EXPECT_EQ(consecutive_windows(stream, 10, 99).B, 10);
  EXPECT_EQ(random_windows(stream, 1, 100, one).ids, stream);

  EXPECT_EQ(error_of([&] { random_windows(stream, 1, 101, one); }),
            "random_windows: a window of 101 tokens does not fit into a text of 100");
  EXPECT_EQ(error_of([&] { random_windows(stream, 0, 5, one); }),
            "random_windows: B and T must be positive, got B 0, T 5");
  EXPECT_EQ(error_of([&] { consecutive_windows(stream, 101); }),
            "consecutive_windows: a window of 101 tokens does not fit into a text of 100");
  EXPECT_EQ(error_of([&] { consecutive_windows(stream, 0); }),
            "consecutive_windows: T must be positive and most not negative, got T 0, most 0");
}

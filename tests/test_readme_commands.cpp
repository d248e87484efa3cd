// The commands of the README run: every line of its sh blocks is taken as it stands, shortened to a few training steps.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

std::vector<std::string> commands() {
  std::ifstream in(CLEARHEAD_SOURCE_DIR "/README.md");
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```"))
      inside = line == "```sh";
    else if (inside)
      lines.push_back(line.substr(0, line.find_last_not_of(' ', line.find('#') - 1) + 1));
  }
  return lines;
}

struct Result {
  int code;
  std::string output;
};
Result run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  return {WEXITSTATUS(pclose(pipe)), output};
}

TEST(ReadmeCommands, Run) {
  const std::string out = std::filesystem::temp_directory_path() / ("clearhead-readme-" + std::to_string(getpid()));
  int programs = 0;
  for (std::string line : commands()) {
    SCOPED_TRACE(line);
    const std::string prefix = "build/release/bin/";
    if (!line.starts_with(prefix)) {
      const std::string file = line.substr(0, line.find(' '));
      EXPECT_EQ(access((std::string(CLEARHEAD_SOURCE_DIR "/") + file).c_str(), X_OK), 0) << file;
      continue;
    }
    ++programs;
    line = std::string("cd " CLEARHEAD_SOURCE_DIR " && " CLEARHEAD_BIN_DIR "/") + line.substr(prefix.size());
    if (const size_t runs = line.find(" runs"); runs != std::string::npos) line.replace(runs + 1, 4, out);
    const auto is = [&](const char* program) { return line.find(program) != std::string::npos; };
    if (!is("/findings"))
      line += " --quick --quiet --out " + out + (is("/attention_basics") || is("/circuits") ? "" : " --steps 2");
    const Result r = run(line);
    const bool no_text = r.code == 1 && r.output.find("scripts/fetch_text.sh") != std::string::npos;
    EXPECT_TRUE(r.code == 0 || r.code == 3 || no_text) << "exit code " << r.code << "\n" << r.output;
  }
  EXPECT_GE(programs, 5);
  std::filesystem::remove_all(out);
}

}  // namespace

// What several tests share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "tensor/error.h"

// The text of the Error that f throws.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const clearhead::Error& e) {
    return e.what();
  }
  return "(no error)";
}

// A test with a folder of its own, removed in the end.
class InFolder : public testing::Test {
 protected:
  InFolder() : folder(testing::TempDir() + "clearhead-XXXXXX") {
    clearhead::require(::mkdtemp(folder.data()) != nullptr, folder, "cannot create");
  }
  ~InFolder() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::string folder;
};

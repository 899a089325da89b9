// The checks of ng-conform in a test of one's own: a part can be checked before it is a plugin.
#include "one_pass.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ng/conform/attention.h"

int main() {
  ng::conform::AttentionSubject subject;
  subject.make = [](const ng::PluginContext& context) {
    return std::make_unique<ng_example::OnePass>(context);
  };
  subject.settings.quick = true;
  const std::vector<std::string> failures = ng::conform::CheckAttention(subject);
  for (const std::string& failure : failures) std::fprintf(stderr, "%s\n", failure.c_str());
  return failures.empty() ? 0 : 1;
}

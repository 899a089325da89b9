// How the answers of a schema are written.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_SPELLING_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_SPELLING_H_

namespace ng::grammar {

struct SchemaSpelling {
  bool assert_formats = true;
  bool compact = false;  // nothing between the parts of the answer
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_SPELLING_H_

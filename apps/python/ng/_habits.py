"""The words of transformers, vLLM and llama-cpp-python for what is called otherwise here: an error that
meets one of them says the word of this package."""

from __future__ import annotations

from typing import Dict

# Of ng.Engine(...).
_OPENING = {
    "model_path": "model", "model_id": "model", "pretrained_model_name_or_path": "model", "filename": "model",
    "n_ctx": "max_tokens, of the longest sequence", "max_model_len": "max_tokens, of the longest sequence",
    "max_seq_len": "max_tokens, of the longest sequence", "n_seq_max": "max_sequences",
    "max_num_seqs": "max_sequences", "max_batch_size": "max_sequences",
    "logits_all": "prompt_logits=True",
    "n_threads": '{"run.threads": n}, in overrides', "n_threads_batch": '{"run.threads": n}, in overrides',
    "n_batch": '{"run.prefill_chunk": n}, in overrides', "seed": '{"sampler.seed": n}, in overrides',
    "dtype": '{"model.weights": "bf16"}, in overrides', "torch_dtype": '{"model.weights": "bf16"}, in overrides',
    "quantization": '{"model.weights": "int8"}, in overrides',
    "load_in_8bit": '{"model.weights": "int8"}, in overrides',
    "load_in_4bit": '{"model.weights": "int4"}, in overrides',
    "kv_cache_dtype": '{"cache.codec": "int8"}, in overrides',
    "type_k": '{"cache.codec_k": "int8"}, in overrides', "type_v": '{"cache.codec_v": "int8"}, in overrides',
    "attn_implementation": '{"attention.name": "flash"}, in overrides',
    "flash_attn": '{"attention.name": "flash"}, in overrides',
    "tokenizer": '{"tokenizer.path": path}, in overrides', "verbose": "progress, and the logger \"ng\"",
    "use_mmap": '{"model.packed": path}, in overrides', "speculative_config": "drafter",
    "draft_model": "drafter", "logits_processor": "stages", "device_map": "nothing: ng runs on the CPU",
    "n_gpu_layers": "nothing: ng runs on the CPU", "gpu_memory_utilization": "nothing: ng runs on the CPU",
    "tensor_parallel_size": '{"fabric.name": ...}, with ng-run: one process has one rank here',
    "trust_remote_code": "nothing: a model file runs no code",
}

# Of the functions that take a prompt, a text or ids.
_CALLING = {
    "max_length": "max_new_tokens", "n_predict": "max_new_tokens",
    "stop_strings": "stop", "stop_texts": "stop", "stop_sequences": "stop",
    "stop_token_ids": "the engine's run.stop_ids", "eos_token_id": "the engine's run.stop_ids",
    "repeat_penalty": "repetition_penalty", "do_sample": "temperature=0 for greedy",
    "num_return_sequences": "n", "best_of": "n", "stream": "generate_steps()",
    "streamer": "generate_steps()", "top_logprobs": "logprobs=k",
    "echo": "Completion.ids, which begin with the prompt's",
    "output_scores": "decode_logits=True", "output_logits": "decode_logits=True",
    "output_attentions": "attention_map=True, or forward()",
    "output_hidden_states": 'points="layer*.out", or forward()',
    "return_dict_in_generate": "nothing: what is given is an object",
    "guided_json": "json_schema", "response_format": "json_schema", "guided_grammar": "grammar",
    "input_ids": "the prompt, first", "prompts": "the prompt, first", "prompt_token_ids": "the prompt, first",
    "inputs": "the prompt, first", "messages": "the messages, first, of chat()",
    "attention_mask": "nothing: prompts are not padded", "padding": "nothing: prompts are not padded",
    "sampling_params": "its fields by name", "generation_config": "its fields by name",
    "num_beams": "n, for several answers", "logits_processor": "a Stage, of Engine(stages=...)",
    "stopping_criteria": "stop, or accept of a Stage", "past_key_values": "sequence",
    "use_cache": "the config's run.use_cache", "pad_token_id": "nothing: prompts are not padded",
    "add_special_tokens": "add_special_tokens of tokenizer.encode()",
    "add_bos": "nothing: what the tokenizer's files ask for is added", "special": "parse_special",
    "return_tensors": "nothing: ids are a list; numpy.array(ids) makes an array",
    "skip_special_tokens": "Completion.text, which has none", "tool_choice": "tools",
    "mirostat_mode": '{"sampler.chain": ...}, in settings', "tfs_z": '{"sampler.chain": ...}, in settings',
}

_OF_ENGINE = {
    "tokenize": "encode()", "detokenize": "decode()", "create_completion": "generate()",
    "create_chat_completion": "chat()", "complete": "generate()",
    "apply_chat_template": "tokenizer.apply_chat_template()",
    "stream": "generate_steps()", "beam_search": "generate(n=...)", "get_tokenizer": "tokenizer",
    "batch_decode": "tokenizer.batch_decode()", "embed": "forward(output_hidden_states=True)",
    "create_embedding": "forward(output_hidden_states=True)", "encode_plus": "encode()",
    "to": "the config: ng runs on the CPU, and model.weights says as what", "cuda": "nothing: ng runs on the CPU",
    "half": 'the config: {"model.weights": "f16"}', "dtype": 'config["model.weights"]',
    "device": "nothing: ng runs on the CPU", "n_ctx": 'model["max_positions"]', "n_vocab": 'model["vocab_size"]',
    "token_eos": "stop_ids", "eos_token_id": "stop_ids", "vocab_size": 'model["vocab_size"]',
    "num_layers": 'model["n_layers"]', "reset": "truncate(0), of a Sequence from open()",
    "save_state": "save(), of a Sequence from open()", "load_state": "load_sequence()",
    "register_forward_hook": "hook()", "named_modules": "points", "modules": "points",
    "perplexity": "eval()", "score": "eval()", "shutdown": "close()", "set_seed": 'set({"sampler.seed": n})',
    "generate_stream": "generate_steps()", "state_dict": "points, for what steps make",
}

_OF_COMPLETION = {
    "outputs": "the completion itself: one is the answer to one prompt", "choices": "text",
    "generated_text": "text", "token_ids": "answer_ids", "sequences": "ids", "prompt_token_ids": "ids",
    "finish_reason": "stop_reason", "scores": "decode_logits", "attentions": "attention",
    "hidden_states": "points", "usage": "prompt_len and answer_ids", "logprobs": "steps, with records=True",
    "content": "text", "message": "text",
}

_OF_PACKAGE = {
    "LLM": "Engine", "Llama": "Engine", "AutoModelForCausalLM": "Engine", "AutoModel": "Engine",
    "AsyncLLMEngine": "Engine", "pipeline": "Engine", "AutoTokenizer": "Tokenizer",
    "SamplingParams": "nothing: generate() takes its fields by name",
    "GenerationConfig": "nothing: generate() takes its fields by name",
    "LogitsProcessor": "Stage", "LogitsProcessorList": "nothing: Engine(stages=[...])",
    "StoppingCriteria": "Stage", "TextStreamer": "nothing: generate_steps() is a stream",
    "from_pretrained": "Engine(model=...)",
}

_ATTRIBUTES = {"Engine": _OF_ENGINE, "Completion": _OF_COMPLETION, "ng": _OF_PACKAGE}


def _hint(words: Dict[str, str], name: str) -> str:
    here = words.get(name)
    if here is None:
        return ""
    if here.startswith("nothing: "):
        return f"; there is none: {here[len('nothing: '):]}"
    return f"; what you mean is probably {here}"


def argument(name: str, function: str) -> TypeError:
    """What is said of an argument that a function does not have."""
    words = _OPENING if function == "Engine" else _CALLING
    return TypeError(f"{function}() got an unexpected keyword argument '{name}'{_hint(words, name)}")


def attribute(name: str, of: str) -> AttributeError:
    """What is said of an attribute that an object does not have."""
    whose = f"module '{of}'" if of == "ng" else f"'{of}' object"
    return AttributeError(f"{whose} has no attribute '{name}'{_hint(_ATTRIBUTES[of], name)}")

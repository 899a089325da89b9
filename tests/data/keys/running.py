"""One run of ng on a tiny model, and whether it is at fault."""
import json, os, subprocess
import numpy
from safetensors.numpy import load_file

PROMPT = [5, 17, 20, 3, 44, 25, 39, 7, 12, 60, 28, 33]


def ng(program, model):
    """The logits of all ids of PROMPT, or the exit code; and what was said."""
    out = model + ".out.safetensors"
    ran = subprocess.run([program, f"--model.path={model}", "--prompt-ids", " ".join(map(str, PROMPT)), "--save", out, "--save-tensors", "logits",
                          "--sampler.chain=greedy", "--run.max_new_tokens=1", "--run.threads=1", "--output", "jsonl"], capture_output=True, text=True)
    if ran.returncode != 0: return ran.returncode, ran.stderr
    logits = load_file(out)["logits.0"]
    os.unlink(out)
    return logits, ran.stderr


def equal(a, b, within=1e-4): return a.shape == b.shape and numpy.abs(a - b).max() < within * numpy.abs(b).max()


def is_wrong_type(said, value):
    """Whether ng refuses a value because it is of another type than the key."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = {"must be an integer": is_number and isinstance(value, int), "must be a number": is_number,
            "must be true or false": isinstance(value, bool), "must be a string": isinstance(value, str)}
    return any(wanted in said and not right for wanted, right in fits.items())


def is_stricter(case, code, said):
    """What ng refuses on purpose though the reference takes no notice: a value of another type, a prompt that is longer than the model's
    positions, a size of 0, what says that it is quantised, no model or not causal, layers that are said to differ, heads that
    cannot be shared out, a scaling that the file leaves to its class, one kind of RoPE where the class has one for each type of layers, a factor where the type of scaling has none, a base of layers with a window that some programs do not read, another width of chunks than the architecture has, widths of layers with a window where there is none, a width of experts that their tensors
do not have, what only another architecture's programs read."""
    key, value = case[1], json.loads(case[2])
    return (code == 5 or is_wrong_type(said, value) or key in ("quantization_config", "per_layer_config", "general.type", "is_causal") or "differs from layer to layer" in said
            or (key == "num_key_value_heads" and value == 3) or "must have full_attention and sliding_attention" in said or "where the type is longrope" in said or key == "rope.freq_base_swa" or "it must say how RoPE is scaled" in said or "in [8192, 8192]" in said
            or (key.endswith("_swa") and "must be an integer in [8, 8]" in said) or (key == "expert_feed_forward_length" and "has shape" in said) or "can run only with" in said
            or (key == "expert_used_count" and "must be an integer in [0, 0]" in said) or (key == "attention.max_alibi_bias" and value == 0) or (value == 0 and "must be an integer in [1," in said))


def judge(program, model, case, moved, wanted, within=1e-4):
    """Runs ng on a case (base, key, value as JSON) in which the reference computes `wanted`, and ng what is as near to it as `within`."""
    mine, said = ng(program, model)
    same = not isinstance(mine, int) and wanted is not None and equal(mine, wanted, within)
    if wanted is not None and not numpy.isfinite(wanted).all(): same = isinstance(mine, int) and mine == 6  # ng says that logits are no numbers
    if same: return "equal"
    # llama.cpp applies a window in some architectures only, ng wherever a file has one.
    if case[1] == "attention.sliding_window" and moved == "s" and not isinstance(mine, int): return "window"
    if isinstance(mine, int) and mine in (3, 5):
        if moved == "m": return "refused"
        if is_stricter(case, mine, said): return "stricter"
    print("FAULT", *case, moved, mine if isinstance(mine, int) else "other logits", said.strip()[-300:], flush=True)
    return "at fault"

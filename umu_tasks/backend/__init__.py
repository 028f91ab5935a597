"""`umu_hf`: an lmms-eval model for any Hugging Face image-text-to-text checkpoint.

- `arguments`: what `--model_args` may say.
- `checkpoint`: opens a checkpoint folder, with its adapter, or says what is wrong with it.
- `prompting`: the one prompt builder, shared with the trainers.
- `generation`: batches of prompts to answers.
- `umu_hf`: the class lmms-eval sees.
"""

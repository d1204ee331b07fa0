// A link to the reference under a name that has changed leads to what has the name now.
const MOVED = {
  "bookkit.excerpts": "pages.javascript.excerpts",
  "bookkit.head_figures": "pages.heads.head_figures",
  "bookkit.inspection": "bookkit.listing",
  "bookkit.laboratory": "pages.laboratory",
  "bookkit.open_model": "pages.look_inside",
  "bookkit.widgets.heads": "pages.inside.heads",
  "bookkit.widgets.leak": "pages.masks.leak",
  "bookkit.widgets.masks": "pages.masks.masks",
  "bookkit.widgets.merges": "pages.text.merges",
  "bookkit.widgets.panel": "pages.laboratory.panel",
  "bookkit.widgets.positions": "pages.positions.positions",
  "bookkit.widgets.softmax": "pages.attention.softmax",
  "bookkit.widgets.switches": "pages.inside.switches",
  "bookkit.widgets.window": "pages.fewer_pairs.window",
  "bookkit.widgets": "bookkit.controls",
  "bookkit.workers": "pages.processes.workers",
  "transformer_lib.data.grammar": "transformer_lib.data.corpora.grammar",
  "transformer_lib.data.multi30k": "transformer_lib.data.corpora.multi30k",
  "transformer_lib.data.shapes": "transformer_lib.data.corpora.shapes",
  "transformer_lib.data.toy": "transformer_lib.data.corpora.toy",
  "transformer_lib.faster.full_training.FullConfig": "transformer_lib.faster.training_at_scale.ScaleConfig",
  "transformer_lib.faster.full_training.FullEpoch": "transformer_lib.faster.training_at_scale.ScaleEpoch",
  "transformer_lib.faster.full_training.FullRun": "transformer_lib.faster.training_at_scale.ScaleRun",
  "transformer_lib.faster.full_training.full_loss": "transformer_lib.faster.training_at_scale.loss_at_scale",
  "transformer_lib.faster.full_training.full_step": "transformer_lib.faster.training_at_scale.step_at_scale",
  "transformer_lib.faster.full_training.full_train": "transformer_lib.faster.training_at_scale.train_at_scale",
  "transformer_lib.faster.full_training": "transformer_lib.faster.training_at_scale",
  "transformer_lib.files.sole_use": "transformer_lib.files.folder_lock",
  "transformer_lib.files.whole_file": "transformer_lib.files.atomic_write",
  "transformer_lib.model.attention.check_attention": "transformer_lib.checks.check_attention",
  "transformer_lib.model.transformer.TransformerParts": "transformer_lib.model.parts.TransformerParts",
  "transformer_lib.swapped.Swapped": "transformer_lib.patching.patched",
  "transformer_lib.swapped": "transformer_lib.patching",
  "transformer_lib.variants.attention.use": "transformer_lib.variants.attention.install",
  "transformer_lib.variants.beyond_text": "transformer_lib.variants.modalities",
};

// What Sphinx calls the section of a module.
const sectionOf = (name) => name.replace(/^\w+\./, "").replace(/[._]/g, "-");

addEventListener("DOMContentLoaded", () => {
  const [, kind, name] = location.hash.match(/^#(module-)?(.*)/) ?? [];
  if (!name || document.getElementById(location.hash.slice(1))) return;
  for (const [old, now] of Object.entries(MOVED))
    for (const form of [(full) => full, sectionOf])
      if (name === form(old) || name.startsWith(form(old) + (form === sectionOf ? "-" : ".")))
        return location.replace(`#${kind ?? ""}${name.replace(form(old), form(now))}`);
});

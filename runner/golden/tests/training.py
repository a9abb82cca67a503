"""What plain PyTorch makes of a training run: python training.py FOLDER

Exports a small model to FOLDER/NAME.pt2 with batches beside it, and trains the exported module
with torch.optim for every case of FOLDER/cases.json. FOLDER/CASE.safetensors gets losses,
learning_rates, norms, the gradients of each step as gradient/STEP/NAME, and state/... after the
last step under the names of golden's files of state.
"""

import copy
import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
from plain import Plain
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F


class Small(nn.Module):
    """Tied weights, a frozen layer, batch statistics, an unused weight and a renormalised one."""

    def __init__(self, renormalised: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 12, max_norm=1.5 if renormalised else None)
        self.mix = nn.Linear(12, 24)
        self.norm = nn.BatchNorm1d(24)
        self.frozen = nn.Linear(24, 12)
        self.frozen.requires_grad_(False)
        self.layer_norm = nn.LayerNorm(12)
        self.unused = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(12, 17)
        if not renormalised:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.gelu(self.norm(self.mix(self.embedding(ids)).transpose(1, 2)).transpose(1, 2))
        logits = self.head(self.layer_norm(self.frozen(hidden)))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten()), logits


def export(folder: Path) -> dict[str, torch.export.ExportedProgram]:
    programs = {}
    models = {
        "small": Small(False),
        "renormalised": Small(True),
        "plain": Plain(),
        "bf16": Plain().to(torch.bfloat16),
        "f16": Plain().to(torch.float16),
    }
    for name, model in models.items():
        torch.manual_seed(1)
        for parameter in model.parameters():
            with torch.no_grad():
                parameter.copy_(torch.randn(parameter.shape) * 0.3)
        for number in range(40):
            ids, labels = torch.randint(0, 17, (4, 6)), torch.randint(0, 17, (4, 6))
            save_file({"ids": ids, "labels": labels}, folder / f"{name}.{number}.safetensors")
        program = torch.export.export(model.train(), (ids, labels), strict=False)
        torch.export.save(program, folder / f"{name}.pt2")
        programs[name] = program
        used = torch.export.export(model.eval(), (ids, labels), strict=False)
        torch.export.save(used, folder / f"{name}.eval.pt2")
    return programs


def groups(parameters: dict[str, torch.Tensor], recipe: dict) -> list[dict]:
    decay = recipe["optimizer"].get("weight_decay", 0.0)
    spared = recipe["no_decay"]
    return [
        {"params": [p for n, p in parameters.items() if n not in spared], "weight_decay": decay},
        {"params": [p for n, p in parameters.items() if n in spared], "weight_decay": 0.0},
    ]


def optimizer(parameters: dict[str, torch.Tensor], recipe: dict) -> torch.optim.Optimizer:
    rule = dict(recipe["optimizer"])
    kind = rule.pop("kind")
    rule.pop("weight_decay", None)
    made = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind]
    return made(groups(parameters, recipe), lr=recipe["learning_rate"], **rule)


def schedule(made: torch.optim.Optimizer, recipe: dict) -> torch.optim.lr_scheduler.LRScheduler:
    import transformers

    chosen = recipe["schedule"]
    if chosen["kind"] == "linear":
        return transformers.get_linear_schedule_with_warmup(made, chosen["warmup"], chosen["total"])
    if chosen["kind"] == "cosine":
        return transformers.get_cosine_schedule_with_warmup(made, chosen["warmup"], chosen["total"])
    return torch.optim.lr_scheduler.LambdaLR(made, lambda step: 1.0)


def train(programs: dict, folder: Path, case: dict) -> dict[str, torch.Tensor]:
    recipe, name = case["recipe"], case["model"]
    # torch.export.load would make two weights of tied ones.
    module = copy.deepcopy(programs[name].module())
    # In the order of the model's own parameters, tied ones under their first name.
    own: dict[str, torch.Tensor] = {}
    for of in programs[name].graph_signature.parameters:
        parameter = module.get_parameter(of)
        if not any(parameter is other for other in own.values()):
            own[of] = parameter
    trained = {n: p for n, p in own.items() if p.requires_grad}
    masters = {}
    if recipe["master_weights"]:
        masters = {n: p.detach().float().requires_grad_() for n, p in trained.items()}
    updated = masters or trained
    made = optimizer(updated, recipe)
    # GradScaler calls the optimiser only where no gradient has overflowed.
    updates = []
    made.register_step_post_hook(lambda *_: updates.append(1))
    rates = schedule(made, recipe)
    scaler = None
    if recipe["loss_scale"]:
        rule = recipe["loss_scale"]
        scaler = torch.amp.GradScaler(
            "cpu", rule["initial"], rule["growth"], rule["backoff"], rule["interval"]
        )
    found: dict[str, torch.Tensor] = {}
    told: dict[str, list[float]] = {"losses": [], "learning_rates": [], "norms": []}
    count = recipe["accumulation"]
    for step in range(case["steps"]):
        losses = []
        for number in range(step * count, (step + 1) * count):
            batch = load_file(folder / f"{name}.{number}.safetensors")
            loss = module(batch["ids"], batch["labels"])
            loss = loss[0] if isinstance(loss, tuple) else loss
            losses.append(loss.item())
            loss = loss / count
            (scaler.scale(loss) if scaler else loss).backward()
        for n, master in masters.items():
            master.grad = trained[n].grad.to(torch.float32)
        if scaler:
            scaler.unscale_(made)
        for n, parameter in updated.items():
            if parameter.grad is not None:
                found[f"gradient/{step}/{n}"] = parameter.grad.clone()
        if recipe["clip_norm"]:
            norm = torch.nn.utils.clip_grad_norm_(list(updated.values()), recipe["clip_norm"])
            told["norms"].append(norm.item())
        told["losses"].append(sum(losses) / count)
        told["learning_rates"].append(rates.get_last_lr()[0])
        if scaler:
            scaler.step(made)
            scaler.update()
        else:
            made.step()
        rates.step()
        for n, master in masters.items():
            trained[n].data.copy_(master)
        made.zero_grad()
        module.zero_grad()
    state = {f"parameter/{n}": p for n, p in own.items()}
    state |= {f"buffer/{n}": b for n, b in module.named_buffers()}
    state |= {f"optimizer/master/{n}": m for n, m in masters.items()}
    for n, parameter in updated.items():
        for slot, tensor in made.state[parameter].items():
            if slot != "step" and tensor is not None:
                state[f"optimizer/{slot}/{n}"] = tensor
    if scaler:
        state["optimizer/scale"] = scaler._scale
        state["optimizer/good_steps"] = scaler._growth_tracker
        state["optimizer/updates"] = torch.tensor(len(updates))
    found |= {f"state/{n}": t for n, t in state.items()}
    found |= {n: torch.tensor(values, dtype=torch.float64) for n, values in told.items()}
    return {n: t.detach().contiguous().clone() for n, t in found.items()}


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    programs = export(folder)
    for name, case in json.loads((folder / "cases.json").read_text()).items():
        save_file(train(programs, folder, case), folder / f"{name}.safetensors")


main()

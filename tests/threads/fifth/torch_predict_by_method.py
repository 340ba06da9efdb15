"""Predicts keypoints on video frames with a compiled tracker, through the method that the training uses."""

import torch
from torch import nn


class HeatmapTracker(nn.Module):
    def __init__(self, num_keypoints=5):
        super().__init__()
        self.num_keypoints = num_keypoints
        self.backbone = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU())
        self.head = nn.Conv2d(16, num_keypoints, 1)

    def forward(self, images):
        heatmaps = self.head(self.backbone(images))
        return heatmaps.flatten(2).softmax(-1).view_as(heatmaps)

    def get_loss_inputs_labeled(self, batch):
        heatmaps = self.forward(batch["images"])
        rows, columns = (torch.arange(size, dtype=torch.float32) for size in heatmaps.shape[-2:])
        ys, xs = torch.meshgrid(rows, columns, indexing="ij")
        keypoints = torch.stack([(heatmaps * xs).sum((-2, -1)), (heatmaps * ys).sum((-2, -1))], dim=-1)
        return {"heatmaps_pred": heatmaps, "keypoints_pred": keypoints, "confidences": heatmaps.amax((-2, -1))}


class Model:
    """What users load from a folder, and predict with."""

    def __init__(self, model):
        self.model = model.eval()

    def compile(self):
        self.model = torch.compile(self.model)

    @torch.inference_mode()
    def predict_on_batch(self, frames):
        outputs = self.model.get_loss_inputs_labeled({"images": frames})
        return outputs["keypoints_pred"], outputs["confidences"]


torch.manual_seed(0)
model = Model(HeatmapTracker())
model.compile()
video = torch.rand(24, 3, 32, 32)
for frames in video.split(4):
    keypoints, confidences = model.predict_on_batch(frames)
    print("value", repr(keypoints.mean().item()), repr(confidences.mean().item()))
# /// thread
# address = "https://github.com/paninski-lab/lightning-pose/issues/467"
# asked = "torch.compile() for the prediction of frames and videos: what has to change?"
# answer = """\
# Prediction calls get_loss_inputs_labeled and not __call__; a compiled whole module falls back silently to the \
# uncompiled one there. Compile self.model.forward and assign it."""
# stack = "torch"
# mechanism = "other: the compiled wrapper is bypassed"
# argument = "get_loss_inputs_labeled"
# before = ""
# after = ""
# line = 33
# lines_accepted = [14, 18, 19, 37, 43, 46]
# compiles = [0, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Compile the method forward, and assign it to the model."
# cure_lines = [
#   {line = 33, code = "        self.model.forward = torch.compile(self.model.forward)"},
# ]
# cure_environment = {}
# losses = "close"
# ///

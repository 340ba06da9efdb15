"""Classifies news by their first words, with the prediction compiled."""

import torch
from torch import nn

AG_NEWS_LABEL = {1: "World", 2: "Sports", 3: "Business", 4: "Sci/Tec"}
NEWS = [
    "memphis tenn four days ago jon rahm was",
    "the fed kept its rates where they were",
    "a probe sends its first pictures of the moon",
    "voters go to the polls in three states",
    "the striker signed for two more seasons at home",
    "shares fell after the maker of chips warned",
]
vocabulary = {word: at for at, word in enumerate(sorted({word for line in NEWS for word in line.split()}))}


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim)
        self.fc = nn.Linear(embed_dim, num_class)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


def text_pipeline(text):
    return [vocabulary[word] for word in text.split()][:8]


def predict(text):
    with torch.no_grad():
        tokens = torch.tensor(text_pipeline(text))
        output = model(tokens, torch.tensor([0]))
        return output.softmax(1)


torch.manual_seed(0)
model = TextClassificationModel(len(vocabulary), 16, len(AG_NEWS_LABEL)).eval()
compiled_predict = torch.compile(predict)
for text in NEWS:
    print("value", repr(compiled_predict(text).max().item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/100455"
# asked = "Dynamo recompiles predict for each text, even with dynamic=True. Should that be fixed?"
# answer = "Apply torch.compile after the string is tokenized into a tensor, since nothing compiles strings."
# stack = "torch"
# mechanism = "python_scalar"
# argument = "text"
# before = "'memphis tenn four days ago jon rahm was'"
# after = "'the fed kept its rates where they were'"
# line = 34
# lines_accepted = [29, 32, 41, 43]
# compiles = [6, 1]
# counted = "compiles (torch._dynamo.utils.get_compilation_metrics())"
# cure = "Tokenize outside, and compile a function of the tokens."
# cure_lines = [
#   {line = 32, code = "def predict(tokens):"},
#   {line = 34, code = ""},
#   {line = 43, code = """
#     print("value", repr(compiled_predict(torch.tensor(text_pipeline(text))).max().item()))"""},
# ]
# cure_environment = {}
# losses = "close"
# ///

"""GluonNLP: a BERT learns who a sentence is about, a language model and a beam search go on with it."""

import warnings
import zlib

import numpy as np

warnings.filterwarnings("ignore")
if not hasattr(np, "bool"):
    np.bool = bool

import gluonnlp as nlp
import mxnet as mx
from mxnet import autograd, gluon, nd

WHO, DOES, WHERE = "cat dog bird horse".split(), "sleeps sits sings".split(), "here there outside".split()


class Drawn(mx.init.Initializer):
    """Small weights, from NumPy's generator."""

    def _init_weight(self, name, array):
        random = np.random.RandomState(zlib.crc32(str(name).encode()))
        array[:] = mx.nd.array(random.uniform(-0.3, 0.3, array.shape))


def drawn(block, *inputs):
    """The block, after a call, with weights that do not depend on MXNet's generator."""
    block.initialize(Drawn())
    block(*inputs)
    for parameter in block.collect_params().values():
        if parameter.name.endswith("weight"):
            random = np.random.RandomState(zlib.crc32(parameter.name.encode()))
            parameter.set_data(nd.array(random.uniform(-0.3, 0.3, parameter.shape)))
    return block


def sentences(random, count):
    made = []
    for _ in range(count):
        who = random.randint(len(WHO))
        words = ["the", WHO[who], DOES[random.randint(3)]] + ["very", "often"][: random.randint(3)]
        made.append((words + [WHERE[random.randint(3)]], who))
    return made


def bert(vocab, **kwargs):
    encoder = nlp.model.BERTEncoder(
        num_layers=2, units=16, hidden_size=32, max_length=12, num_heads=4, dropout=0.0, prefix="enc_"
    )
    return nlp.model.BERTModel(
        encoder, vocab_size=len(vocab), token_type_vocab_size=2, units=16, embed_size=16, prefix="bert_", **kwargs
    )


def learn(vocab, samples):
    batchify = nlp.data.batchify.Tuple(
        nlp.data.batchify.Pad(pad_val=vocab[vocab.padding_token], ret_length=True), nlp.data.batchify.Stack("float32")
    )
    rows = [(vocab["[CLS] {} [SEP]".format(" ".join(words)).split()], who) for words, who in samples]
    sampler = nlp.data.FixedBucketSampler([len(row) for row, _ in rows], batch_size=8, num_buckets=2, shuffle=False)
    net = nlp.model.BERTClassifier(bert(vocab, use_classifier=False, use_decoder=False), num_classes=4, dropout=0.0)
    drawn(net, nd.ones((1, 3)), nd.zeros((1, 3)), nd.array([3])).hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 3e-3})
    loss, right = gluon.loss.SoftmaxCELoss(), mx.metric.Accuracy()
    for epoch in range(10):
        total = 0.0
        right.reset()
        for batch in gluon.data.DataLoader(rows, batch_sampler=sampler, batchify_fn=batchify):
            (ids, lengths), labels = batch
            ids, lengths, labels = (x.as_in_context(mx.cpu()) for x in (ids, lengths, labels))
            with autograd.record():
                out = net(ids, nd.zeros_like(ids), lengths.astype("float32"))
                losses = loss(out, labels).mean()
            losses.backward()
            nlp.utils.clip_grad_global_norm([p for p in net.collect_params().values() if p.grad_req != "null"], 1.0)
            trainer.step(1)
            total += float(losses.asscalar())
            right.update(labels, out)
        if epoch % 3 == 0:
            print("epoch", epoch, "loss %.3f" % total, "right %.2f" % right.get()[1])


def fill_gaps(vocab):
    net = bert(vocab, use_decoder=True, use_classifier=True)
    drawn(net, nd.ones((1, 3)), nd.zeros((1, 3)), nd.array([3]), nd.array([[1]]))
    ids = nd.array(
        [vocab["[CLS] the [MASK] sleeps here [SEP]".split()], vocab["[CLS] a dog sings there [SEP]".split()]]
    )
    for hybridized in (False, True):
        net.hybridize(hybridized)
        _, pooled, order, words = net(ids, nd.zeros_like(ids), nd.array([6, 5]), nd.array([[2, 4], [1, 3]]))
        print(hybridized, words.shape, np.round(words[0, 0, :5].asnumpy(), 3), np.round(order.asnumpy(), 3))


def go_on(vocab):
    model = nlp.model.StandardRNN("lstm", len(vocab), 12, 12, 2, dropout=0.0, tie_weights=True, prefix="lm_")
    drawn(model, nd.ones((2, 1)))

    class Decoder:
        def __call__(self, step, states):
            out, states = model(step.expand_dims(0), [s.swapaxes(0, 1) for s in states])
            return nd.log_softmax(out[0] * 40), [s.swapaxes(0, 1) for s in states]

    begin = [s.swapaxes(0, 1) for s in model.begin_state(batch_size=2, func=nd.zeros)]
    search = nlp.model.BeamSearchSampler(
        beam_size=3,
        decoder=Decoder(),
        eos_id=vocab["[SEP]"],
        scorer=nlp.model.BeamSearchScorer(alpha=0.6),
        max_length=5,
    )
    found, scores, lengths = search(nd.array(vocab[["cat", "dog"]]), begin)
    for row in range(2):
        print(
            " ".join(vocab.to_tokens(found[row, 0].asnumpy().astype(int).tolist())), "%.3f" % scores[row, 0].asscalar()
        )
    print(lengths.asnumpy().tolist())


def main():
    samples = sentences(np.random.RandomState(1), 48)
    counter = nlp.data.count_tokens([word for words, _ in samples for word in words])
    vocab = nlp.vocab.BERTVocab(counter)
    print(len(vocab), vocab.to_indices(["the", "dog", "zebra"]), vocab.to_tokens([0, 1, 2]))
    learn(vocab, samples)
    fill_gaps(vocab)
    go_on(vocab)


if __name__ == "__main__":
    main()

"""A small residual network of GluonCV's zoo learns to tell three patterns in a folder of images."""

import os
import tempfile
import warnings
import zlib

import cv2
import numpy as np

warnings.filterwarnings("ignore")
if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx
from gluoncv.data.transforms import image as timage
from gluoncv.model_zoo import get_model
from gluoncv.utils import LRScheduler, LRSequential
from mxnet import autograd, gluon, nd
from mxnet.gluon.data.vision import ImageFolderDataset, transforms


class Drawn(mx.init.Initializer):
    """He's weights, from NumPy's generator."""

    def _init_weight(self, name, array):
        fan = int(np.prod(array.shape[1:]))
        random = np.random.RandomState(zlib.crc32(name.encode()))
        array[:] = random.normal(0, np.sqrt(2 / fan), array.shape)


def draw(folder, per_class, random):
    x, y = np.meshgrid(np.arange(40), np.arange(40))
    for kind, field in (("rings", np.hypot(x - 20, y - 20)), ("stripes", x + 0 * y), ("slopes", x + y)):
        os.makedirs(os.path.join(folder, kind))
        for i in range(per_class):
            wave = np.sin(field * random.uniform(0.7, 0.8) + random.uniform(0, 6))
            picture = 128 + 60 * wave[..., None] * random.uniform(0.5, 1, 3) + random.normal(0, 15, (40, 40, 3))
            cv2.imwrite(os.path.join(folder, kind, f"{i:02d}.png"), picture.clip(0, 255).astype(np.uint8))


def main():
    root = tempfile.mkdtemp()
    random = np.random.RandomState(3)
    draw(os.path.join(root, "train"), 16, random)
    draw(os.path.join(root, "val"), 6, random)

    normalize = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    )

    def augment(image):
        image, _ = timage.random_flip(image, px=0.5)
        image = timage.imresize(image, 32, 32)
        return normalize(image)

    plain = transforms.Compose([transforms.Resize(32), normalize])
    train_set = ImageFolderDataset(os.path.join(root, "train"))
    print("classes", train_set.synsets, len(train_set), train_set[0][0].shape, train_set[0][1])
    order = [int(i) for i in np.random.RandomState(5).permutation(len(train_set))]
    train_data = gluon.data.DataLoader(train_set.transform_first(augment), batch_size=12, sampler=order)
    val_data = gluon.data.DataLoader(
        ImageFolderDataset(os.path.join(root, "val")).transform_first(plain), batch_size=6, num_workers=0
    )
    np.random.seed(4)

    ctx = [mx.cpu()]
    net = get_model("cifar_resnet20_v1", classes=3, prefix="net_")
    net.initialize(Drawn(), ctx=ctx)
    net.hybridize(static_alloc=True)
    epochs, steps = 6, len(train_data)
    scheduler = LRSequential(
        [
            LRScheduler("linear", base_lr=0, target_lr=0.02, nepochs=1, iters_per_epoch=steps),
            LRScheduler("cosine", base_lr=0.02, nepochs=epochs - 1, iters_per_epoch=steps),
        ]
    )
    trainer = gluon.Trainer(net.collect_params(), "nag", {"lr_scheduler": scheduler, "wd": 1e-4, "momentum": 0.9})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    train_metric, val_metric = mx.metric.Accuracy(), mx.metric.Accuracy()
    for epoch in range(epochs):
        train_metric.reset()
        total = 0.0
        for batch in train_data:
            data = gluon.utils.split_and_load(batch[0], ctx_list=ctx, batch_axis=0)
            label = gluon.utils.split_and_load(batch[1], ctx_list=ctx, batch_axis=0)
            with autograd.record():
                output = [net(x) for x in data]
                loss = [loss_fn(out, y) for out, y in zip(output, label)]
            for each in loss:
                each.backward()
            trainer.step(batch[0].shape[0])
            total += sum(float(each.sum().asscalar()) for each in loss)
            train_metric.update(label, output)
            if trainer.optimizer.num_update <= 2:  # later losses amplify what rounding makes different
                print("step lr %.4f loss %.2f" % (trainer.learning_rate, total))
        val_metric.reset()
        for data, label in val_data:
            val_metric.update([label], [net(data)])
        if epoch == epochs - 1:
            print("learned", train_metric.get()[1] > 0.9, val_metric.get()[1] > 0.75)
    net.save_parameters(os.path.join(root, "net.params"))
    other = get_model("cifar_resnet20_v1", classes=3, prefix="other_")
    other.load_parameters(os.path.join(root, "net.params"))
    image = nd.ones((1, 3, 32, 32))
    print("loaded", np.allclose(net(image).asnumpy(), other(image).asnumpy(), rtol=1e-4, atol=1e-4))


main()

"""What convolution, pooling and related layers do, run by MXNet (make_conv_layers.py) and by hybridc (tests/gluon)."""

from __future__ import annotations

from gluon_cases import fill, gradients, random

CASES = {}


def case(function):
    """Enter a case under its name."""
    CASES[function.__name__] = function
    return function


def convolutions(mx):
    """Convolution layers with their inputs."""
    nn = mx.gluon.nn
    line, image, volume = random(2, 4, 9, seed=1), random(2, 4, 7, 6, seed=2), random(1, 2, 5, 4, 6, seed=3)
    yield "conv1d", nn.Conv1D(3, 3), line
    yield "conv1d_all", nn.Conv1D(6, 3, strides=2, padding=2, dilation=2, groups=2, activation="relu"), line
    yield "conv2d", nn.Conv2D(3, 3), image
    yield "conv2d_channels", nn.Conv2D(channels=5, kernel_size=(1, 1), in_channels=4, use_bias=False), image
    yield (
        "conv2d_all",
        nn.Conv2D(
            6, (3, 2), strides=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, activation="tanh", use_bias=False
        ),
        image,
    )
    yield "conv2d_depthwise", nn.Conv2D(8, 3, padding=1, groups=4), image
    yield "conv3d", nn.Conv3D(3, 2, padding=1), volume
    yield "conv3d_all", nn.Conv3D(4, (2, 1, 3), strides=(2, 1, 2), padding=(0, 1, 1), groups=2), volume
    yield "transpose1d", nn.Conv1DTranspose(3, 4, strides=2, padding=1), line
    yield "transpose2d", nn.Conv2DTranspose(3, 3), image
    yield (
        "transpose2d_all",
        nn.Conv2DTranspose(
            *(6, (3, 4), (3, 2), 1, (1, 0)),  # MXNet needs in_channels where there are groups
            groups=2,
            activation="sigmoid",
            in_channels=4,
        ),
        image,
    )
    yield "transpose3d", nn.Conv3DTranspose(3, 2, strides=2, use_bias=False), volume


def poolings(mx):
    """Pooling and padding layers with their inputs."""
    nn = mx.gluon.nn
    line, image, volume = random(2, 3, 9, seed=4), random(2, 3, 7, 8, seed=5), random(1, 2, 5, 4, 6, seed=6)
    yield "max1d", nn.MaxPool1D(), line
    yield "max1d_all", nn.MaxPool1D(pool_size=4, strides=3, padding=1, ceil_mode=True), line
    yield "max2d", nn.MaxPool2D(), image
    yield "max2d_all", nn.MaxPool2D(3, 2, 1, ceil_mode=True), image
    yield "max3d", nn.MaxPool3D((2, 1, 3), strides=1), volume
    yield "avg1d", nn.AvgPool1D(3), line
    yield "avg2d", nn.AvgPool2D((3, 2), strides=2, padding=(1, 0)), image
    yield "avg2d_no_pad", nn.AvgPool2D(3, 2, 1, count_include_pad=False), image
    yield "avg2d_ceil", nn.AvgPool2D(3, 2, 1, ceil_mode=True), image
    yield "avg3d", nn.AvgPool3D(2), volume
    yield "globalmax1d", nn.GlobalMaxPool1D(), line
    yield "globalmax2d", nn.GlobalMaxPool2D(), image
    yield "globalmax3d", nn.GlobalMaxPool3D(), volume
    yield "globalavg1d", nn.GlobalAvgPool1D(), line
    yield "globalavg2d", nn.GlobalAvgPool2D(), image
    yield "globalavg3d", nn.GlobalAvgPool3D(), volume
    yield "reflection", nn.ReflectionPad2D(2), image
    yield "reflection_each", nn.ReflectionPad2D((0, 0, 0, 0, 1, 2, 3, 0)), image


def others(mx):
    """Normalizations and rearrangements with their inputs."""
    nn, contrib = mx.gluon.nn, mx.gluon.contrib.nn
    image = random(2, 4, 3, 5, seed=7)
    yield "instance", nn.InstanceNorm(), image
    yield "instance_scale", nn.InstanceNorm(scale=True, center=False, epsilon=1e-2, in_channels=4), image
    yield "instance_axis", nn.InstanceNorm(axis=2), image
    yield "group", nn.GroupNorm(2), image
    yield "group_one", nn.GroupNorm(scale=False, epsilon=1e-2), image
    yield "shuffle1d", contrib.PixelShuffle1D(3), random(2, 6, 4, seed=8)
    yield "shuffle2d", contrib.PixelShuffle2D((2, 3)), random(2, 12, 3, 4, seed=9)
    yield "shuffle2d_square", contrib.PixelShuffle2D(2), random(1, 8, 2, 3, seed=10)
    yield "shuffle3d", contrib.PixelShuffle3D((2, 1, 3)), random(1, 12, 2, 3, 2, seed=11)


def layers(mx):
    """All of them."""
    yield from convolutions(mx)
    yield from poolings(mx)
    yield from others(mx)


@case
def results(mx, hybridize):
    """Outputs and gradients with fixed weights."""
    found = {}
    with mx.name.NameManager():
        for name, layer, x in layers(mx):
            layer.initialize()
            hybridize(layer)
            layer(mx.nd.array(x))
            fill(layer, mx)
            found.update({f"{name}/{k}": v for k, v in gradients(mx, layer, [x]).items()})
    return found


@case
def texts(mx, hybridize):
    """What layers print, and the parameters that they have, before and after the first call."""
    found = {}
    with mx.name.NameManager():
        for name, layer, x in layers(mx):
            found[f"{name} before"] = [repr(layer), declared(layer)]
            layer.initialize()
            hybridize(layer)
            layer(mx.nd.array(x))
            found[f"{name} after"] = [repr(layer), declared(layer)]
    # hybridc shows the channels and the output padding of transposed convolutions, which MXNet confuses and leaves out.
    for key in [key for key in found if key.startswith("transpose")]:
        found[key] = found[key][1]
    return found


def declared(layer):
    """Names, shapes and grad_req of its parameters."""
    return [[name, list(p.shape), p.grad_req] for name, p in layer.collect_params().items()]


@case
def deformable(mx, hybridize):
    """Deformable convolutions, with offsets that the input gives."""
    with mx.name.NameManager():
        cnn = mx.gluon.contrib.cnn
        found = {}
        variants = {
            "plain": cnn.DeformableConvolution(4, 3, padding=1),
            "all": cnn.DeformableConvolution(
                4,
                (3, 2),
                strides=(2, 1),
                padding=1,
                dilation=1,
                num_deformable_group=2,
                use_bias=False,
                activation="relu",
            ),
        }
        for name, layer in variants.items():
            layer.initialize()
            hybridize(layer)
            x = random(1, 2, 6, 5, seed=12)
            layer(mx.nd.array(x))
            fill(layer, mx)
            found[f"{name} parameters"] = declared(layer)
            found.update({f"{name}/{k}": v for k, v in gradients(mx, layer, [x]).items()})
        modulated = cnn.ModulatedDeformableConvolution(4, 3, offset_use_bias=False)  # MXNet runs it on GPUs only
        found["modulated parameters"] = declared(modulated)
        return found


@case
def batch_norm_relu(mx, hybridize):
    """Batch normalization with a rectifier: results, gradients, and running statistics."""
    found = {}
    net = mx.gluon.nn.BatchNormReLU(prefix="bn_")
    net.initialize()
    hybridize(net)
    x = random(3, 2, 4, 5, seed=13)
    with mx.autograd.predict_mode():
        net(mx.nd.array(x))
    net.gamma.set_data(mx.nd.array([0.5, -2]))
    net.beta.set_data(mx.nd.array([0.1, 0.3]))
    found.update(gradients(mx, net, [x]))
    found["mean"] = net.running_mean.data().asnumpy()
    found["predict"] = net(mx.nd.array(x)).asnumpy()
    return found


def network(mx):
    """A small network with each kind of layer that files must hold."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(
            nn.Conv2D(4, 3, padding=1, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool2D(3, 2, 1),
            nn.Conv2D(4, 3, groups=2, activation="tanh"),
            nn.AvgPool2D(2, strides=1),
            nn.Conv2DTranspose(3, 2, strides=2),
            nn.InstanceNorm(),
            nn.GlobalAvgPool2D(),
            nn.Flatten(),
            nn.Dense(3),
        )
    return net, random(2, 3, 9, 8, seed=14)

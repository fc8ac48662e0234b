"""Programs with images, records and batches that MXNet and hybridc both run: ``images.npz`` has what MXNet gives.

Each takes the module as ``mx`` and a folder to write to, and gives a list of arrays. Both draw random numbers from
Python's ``random`` and ``numpy.random``, so equal seeds give equal crops.
"""

import random
from pathlib import Path

import numpy as np

FILES = Path(__file__).with_name("images")
RECORDS = Path(__file__).with_name("files")
MAGIC = b"\x0a\x23\xd7\xce"  # as records hold it

CASES = {}


def case(function):
    """A program, under its name."""
    CASES[function.__name__] = function
    return function


def noise(height, width, channels=3, dtype="uint8", seed=3):
    """An image in which every pixel differs from its neighbours."""
    image = np.random.RandomState(seed).randint(0, 256, (height, width, channels)).astype(dtype)
    return image if dtype == "uint8" else image + np.random.RandomState(seed).rand(*image.shape).astype(dtype)


def array(mx, image):
    """The image as an array of the library."""
    return mx.nd.array(image, dtype=str(image.dtype))


def seeded(mx, seed=0):
    """Start all random numbers over."""
    random.seed(seed)
    np.random.seed(seed)
    mx.random.seed(seed)


# --- files ---


def _decode(name):
    def program(mx, folder):
        data = (FILES / name).read_bytes()
        flags = ((1, 1), (0, 1), (1, 0))
        made = [mx.image.imdecode(data, flag=flag, to_rgb=to_rgb).asnumpy() for flag, to_rgb in flags]
        return [*made, mx.image.imread(str(FILES / name)).asnumpy(), mx.image.imread(str(FILES / name), 0).asnumpy()]

    program.__name__ = f"decode_{name.replace('.', '_')}"
    return program


NAMES = [
    "alpha.png",
    "bits.png",
    "cmyk.jpg",
    "colour.bmp",
    "colour.jpg",
    "colour.png",
    "colour444.jpg",
    "deep.png",
    "gray.jpg",
    "gray.png",
    "gray_alpha.png",
    "palette.png",
    "progressive.jpg",
    "rotated.jpg",
]
for _name in NAMES:
    case(_decode(_name))


# --- sizes ---

SIZES = [(13, 17, 3), (16, 24, 1), (5, 4, 3), (1, 1, 3), (1, 9, 4), (40, 30, 2)]
NEW_SIZES = [(7, 9), (26, 34), (8, 12), (13, 9), (30, 5), (1, 1), (4, 6), (20, 15), (19, 23), (2, 3)]


def _resize(method, dtype):
    def program(mx, folder):
        few = None if dtype == "uint8" else 4
        images = [array(mx, noise(*size, dtype)) for size in SIZES[:few]]
        return [mx.image.imresize(x, w, h, method).asnumpy() for x in images for h, w in NEW_SIZES[:few]]

    program.__name__ = f"resize_{method}_{dtype}"
    return program


for _method in range(5):
    for _dtype in ("uint8", "float32"):
        case(_resize(_method, _dtype))


@case
def resize_default(mx, folder):
    out = mx.nd.zeros((4, 6, 3), dtype="uint8")
    mx.image.imresize(array(mx, noise(9, 11)), 6, 4, out=out)
    return [mx.image.imresize(array(mx, noise(9, 11)), 6, 4).asnumpy(), out.asnumpy()]


@case
def short_sides(mx, folder):
    tall, wide = array(mx, noise(21, 13)), array(mx, noise(10, 19))
    return [mx.image.resize_short(x, n, i).asnumpy() for x in (tall, wide) for n in (7, 25) for i in (0, 1, 3, 9)]


@case
def scaled_down(mx, folder):
    sizes = [((640, 480), (720, 120)), ((360, 1000), (480, 500)), ((30, 20), (40, 50)), ((30, 20), (10, 10))]
    return [np.array(mx.image.scale_down(a, b)) for a, b in sizes]


@case
def crops(mx, folder):
    x = array(mx, noise(21, 17))
    made = [mx.image.fixed_crop(x, 3, 2, 9, 11).asnumpy(), mx.image.fixed_crop(x, 3, 2, 9, 11, (5, 7), 1).asnumpy()]
    for size in ((9, 11), (30, 12), (8, 40)):
        image, box = mx.image.center_crop(x, size, 1)
        made += [image.asnumpy(), np.array(box)]
    return made


@case
def random_crops(mx, folder):
    seeded(mx)
    x = array(mx, noise(21, 17))
    made = []
    for size in ((9, 11), (30, 12), (8, 40)):
        for image, box in (
            mx.image.random_crop(x, size, 1),
            mx.image.random_size_crop(x, size, (0.1, 0.9), (0.5, 2.0), 1),
            mx.image.random_size_crop(x, size, 0.5, (0.5, 2.0), 0),
        ):
            made += [image.asnumpy(), np.array(box)]
    image, box = mx.image.random_size_crop(x, (5, 5), (4.0, 5.0), (0.5, 2.0), 1)  # never fits
    return [*made, image.asnumpy(), np.array(box)]


@case
def normalized(mx, folder):
    x = mx.nd.array(noise(5, 4, dtype="float32"))
    mean, std = mx.nd.array([1.0, 2.0, 3.0]), mx.nd.array([4.0, 5.0, 6.0])
    pairs = ((mean, None), (None, std), (mean, std))
    return [mx.image.color_normalize(x.copy(), a, b).asnumpy() for a, b in pairs]


@case
def borders(mx, folder):
    x = array(mx, noise(3, 4))
    made = [mx.image.copyMakeBorder(x, 1, 2, 5, 0, kind).asnumpy() for kind in (0, 1, 2, 3, 4)]
    made.append(mx.image.copyMakeBorder(x, 1, 1, 1, 1, 0, values=(1, 2, 3)).asnumpy())
    made.append(mx.image.copyMakeBorder(x, 0, 0, 2, 1, value=7).asnumpy())
    made.append(mx.image.copyMakeBorder(x, 0, 1, 0, 1, 16, values=(1, 2, 3)).asnumpy())
    return [*made, mx.image.copyMakeBorder(x.astype("float32"), 1, 1, 1, 1, values=(1.5, 2, 3)).asnumpy()]


@case
def rotations(mx, folder):
    seeded(mx)
    x = mx.nd.array(noise(7, 9, dtype="float32").transpose(2, 0, 1))
    batch = mx.nd.stack(x, x * 2)
    made = [
        mx.image.imrotate(x, a, *zoom).asnumpy() for a in (0, 30, -75, 200) for zoom in ((), (True,), (False, True))
    ]
    made.append(mx.image.imrotate(batch, mx.nd.array([10, -20])).asnumpy())
    made.append(mx.image.imrotate(batch, 45, zoom_out=True).asnumpy())
    made.append(mx.image.random_rotate(x, (-30, 30)).asnumpy())
    return [*made, mx.image.random_rotate(batch, (0, 90), zoom_in=True).asnumpy()]


# --- augmenters ---


def texts(values):
    """Texts as an array of bytes."""
    return [np.frombuffer(str(value).encode(), np.uint8) for value in values]


def augmenters(mx):
    """One of each kind."""
    i = mx.image
    colours = i.ColorJitterAug(0.1, 0.2, 0.3)
    return [
        i.ResizeAug(12),
        i.ForceResizeAug((6, 9), 1),
        i.RandomCropAug((6, 9), 1),
        i.RandomSizedCropAug((6, 9), 0.1, (0.7, 1.4), 1),
        i.CenterCropAug((6, 9), 1),
        i.BrightnessJitterAug(0.3),
        i.ContrastJitterAug(0.3),
        i.SaturationJitterAug(0.3),
        i.HueJitterAug(0.3),
        colours,
        i.LightingAug(0.5, np.array([55.46, 4.794, 1.148]), np.arange(9).reshape(3, 3) / 10),
        i.ColorNormalizeAug(np.array([1.0, 2.0, 3.0]), mx.nd.array([4.0, 5.0, 6.0])),
        i.ColorNormalizeAug([1.0, 2.0, 3.0], None),
        i.RandomGrayAug(0.5),
        i.HorizontalFlipAug(0.5),
        i.CastAug("float64"),
        i.SequentialAug([i.CastAug(), i.HorizontalFlipAug(1.0)]),
        i.RandomOrderAug([i.HorizontalFlipAug(0.5), i.BrightnessJitterAug(0.1)]),
    ]


@case
def augmented(mx, folder):
    seeded(mx)
    made = []
    for augmenter in augmenters(mx):
        made += [augmenter(mx.nd.array(noise(9, 11, dtype="float32"))).asnumpy() for _ in range(3)]
    return made


@case
def augmenter_texts(mx, folder):
    return texts(a.dumps() for a in augmenters(mx))


ALL = {
    "resize": 12, "rand_crop": True, "rand_resize": True, "rand_mirror": True, "mean": True, "std": True,
    "brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1, "pca_noise": 0.1, "rand_gray": 0.3,
    "inter_method": 1,
}  # fmt: skip


@case
def created(mx, folder):
    seeded(mx)
    made = texts(a.dumps() for a in mx.image.CreateAugmenter((3, 8, 10), **ALL))
    made += texts(a.dumps() for a in mx.image.CreateAugmenter((3, 8, 10), mean=np.array([1.0, 2, 3])))
    for _ in range(4):
        x = array(mx, noise(14, 18))
        for augmenter in mx.image.CreateAugmenter((3, 8, 10), **ALL):
            x = augmenter(x)
        made.append(x.asnumpy())
    return made


BOXES = np.array([[0, 0.1, 0.2, 0.5, 0.6], [2, 0.3, 0.3, 0.9, 0.7], [1, 0.05, 0.7, 0.2, 0.95]], np.float32)


def box_augmenters(mx):
    """One of each kind that draws random numbers."""
    i = mx.image
    return [
        i.DetBorrowAug(i.HorizontalFlipAug(0.5)),
        i.DetHorizontalFlipAug(0.5),
        i.DetRandomCropAug(),
        i.DetRandomCropAug(0.3, 1.0, (0.2, 0.8), 0.5, 20),
        i.DetRandomPadAug(),
        i.DetRandomPadAug((0.5, 2.0), (1.0, 4.0), 20, (1, 2, 3)),
        i.DetRandomSelectAug([i.DetHorizontalFlipAug(1.0), i.DetRandomPadAug()], 0.3),
        i.CreateMultiRandCropAugmenter([0.1, 0.5], (0.75, 1.33), [(0.1, 1.0), (0.3, 0.9)], skip_prob=0.2),
    ]


@case
def boxes_augmented(mx, folder):
    seeded(mx)
    made = []
    for augmenter in box_augmenters(mx):
        for _ in range(6):
            image, boxes = augmenter(array(mx, noise(20, 24)), BOXES.copy())
            made += [image.asnumpy(), boxes]
    return made


@case
def box_augmenter_texts(mx, folder):
    made = texts(a.dumps() for a in box_augmenters(mx))
    options = {**{k: v for k, v in ALL.items() if k != "rand_resize"}, "rand_crop": 0.5, "rand_pad": 0.5}
    return made + texts(a.dumps() for a in mx.image.CreateDetAugmenter((3, 8, 10), **options))


# --- records ---

RECORD_DATA = [
    b"", b"a", b"abcd", MAGIC, b"ab" + MAGIC, b"abcd" + MAGIC + b"xy", MAGIC + MAGIC + b"z", b"abcd" * 3 + MAGIC * 3,
    bytes(range(256)) * 5,
]  # fmt: skip


@case
def records(mx, folder):
    writer = mx.recordio.MXIndexedRecordIO(str(folder / "r.idx"), str(folder / "r.rec"), "w")
    places = []
    for i, data in enumerate(RECORD_DATA):
        places.append(writer.tell())
        writer.write_idx(10 * i, data)
    writer.close()
    reader = mx.recordio.MXIndexedRecordIO(str(folder / "r.idx"), str(folder / "r.rec"), "r")
    made = [np.array(reader.keys), np.array(places)]
    made += [np.frombuffer(reader.read_idx(10 * i), np.uint8) for i in (5, 0, 7)]
    reader.seek(30)
    made.append(np.frombuffer(reader.read(), np.uint8))
    made.append(np.frombuffer(reader.read(), np.uint8))
    reader.reset()
    made += [np.frombuffer(reader.read(), np.uint8) for _ in RECORD_DATA]
    made.append(np.array(reader.read() is None))
    return [*made, *(np.frombuffer((folder / f"r.{end}").read_bytes(), np.uint8) for end in ("idx", "rec"))]


@case
def packed(mx, folder):
    r = mx.recordio
    headers = [(0, 4.5, 7, 0), r.IRHeader(9, 3, 2**40, 1), (0, [1.0, 2.5], 3, 4), (0, np.arange(5), 3, 4)]
    made = [r.pack(header, b"image") for header in headers]
    unpacked = [r.unpack(record) for record in made]
    return [
        *(np.frombuffer(record, np.uint8) for record in made),
        *(np.array([h.flag, h.id, h.id2], np.float64) for h, _ in unpacked),
        *(np.array(h.label) for h, _ in unpacked),
        *(np.frombuffer(data, np.uint8) for _, data in unpacked),
    ]


def image_files(folder, count=5):
    """Copies of images, a list file, and a list."""
    names = [f"{i}_{NAMES[(2 * i + 4) % len(NAMES)]}" for i in range(count)]
    for name in names:
        (folder / name).write_bytes((FILES / name.split("_", 1)[1]).read_bytes())
    (folder / "a.lst").write_text("".join(f"{3 * i}\t{i % 3}\t{name}\n" for i, name in enumerate(names)))
    return names


def image_records(mx, folder, label=lambda i: i % 3):
    """A record file of these images, and its index."""
    names = image_files(folder)
    writer = mx.recordio.MXIndexedRecordIO(str(folder / "i.idx"), str(folder / "i.rec"), "w")
    for i, name in enumerate(names):
        writer.write_idx(3 * i, mx.recordio.pack((0, label(i), i, 0), (folder / name).read_bytes()))
    writer.close()
    return names


# --- iterators ---


def epochs(iterator, count=3):
    """All arrays and pads of some epochs, resetting in between."""
    made = []
    for _ in range(count):
        batches = list(iterator)
        made.append(np.array([batch.pad for batch in batches]))
        for batch in batches:
            made += [x.asnumpy() for x in (*batch.data, *batch.label)]
        iterator.reset()
    return made


@case
def image_iterators(mx, folder):
    names = image_records(mx, folder)
    where = {"path_imgrec": str(folder / "i.rec")}
    indexed = {**where, "path_imgidx": str(folder / "i.idx")}
    listed = {"path_imglist": str(folder / "a.lst"), "path_root": str(folder)}
    given = {"imglist": [[i % 3, name] for i, name in enumerate(names)], "path_root": str(folder)}
    several = {"imglist": [[i, i + 0.5, name] for i, name in enumerate(names)], "path_root": str(folder)}
    kinds = [
        where,
        indexed,
        listed,
        given,
        {**several, "label_width": 2},
        {**indexed, "path_imglist": listed["path_imglist"]},
    ]
    made = []
    for kind in kinds:
        seeded(mx)
        made += epochs(mx.image.ImageIter(2, (3, 6, 8), inter_method=1, **kind), 2)
    for handle in ("pad", "discard", "roll_over"):
        for kind in (where, indexed):
            seeded(mx)
            iterator = mx.image.ImageIter(2, (3, 6, 8), last_batch_handle=handle, inter_method=1, **kind)
            made += epochs(iterator)
    seeded(mx)
    iterator = mx.image.ImageIter(
        2,
        (3, 6, 8),
        shuffle=True,
        num_parts=2,
        part_index=1,
        rand_crop=True,
        rand_mirror=True,
        inter_method=1,
        **indexed,
    )
    made += epochs(iterator)
    made += texts([[tuple(x) for x in iterator.provide_data], [tuple(x) for x in iterator.provide_label]])
    return made


def box_label(i):
    """A label as ImageDetIter wants it: two numbers in front, rows of five."""
    return np.concatenate([[2, 5], BOXES[: i % 3 + 1].ravel()]).astype(np.float32)


@case
def box_iterators(mx, folder):
    image_records(mx, folder, box_label)
    where = {"path_imgrec": str(folder / "i.rec"), "path_imgidx": str(folder / "i.idx")}
    made = []
    for handle in ("pad", "roll_over"):
        seeded(mx)
        iterator = mx.image.ImageDetIter(2, (3, 6, 8), last_batch_handle=handle, inter_method=1, **where)
        made += epochs(iterator)
    seeded(mx)
    options = {"rand_crop": 0.5, "rand_pad": 0.5, "rand_mirror": True, "shuffle": True, "inter_method": 1}
    iterator = mx.image.ImageDetIter(2, (3, 6, 8), **options, **where)
    made += epochs(iterator)
    made += texts([[tuple(x) for x in iterator.provide_data], [tuple(x) for x in iterator.provide_label]])
    iterator.reshape((3, 4, 4), (7, 5))
    return made + texts([[tuple(x) for x in iterator.provide_data], [tuple(x) for x in iterator.provide_label]])


@case
def record_iterators(mx, folder):
    image_records(mx, folder, float)
    where = {"path_imgrec": str(folder / "i.rec"), "preprocess_threads": 1}
    indexed = {**where, "path_imgidx": str(folder / "i.idx")}
    normal = {"mean_r": 10, "mean_g": 20, "mean_b": 30, "std_r": 2, "std_g": 3, "std_b": 4, "scale": 0.5}
    shape = {"data_shape": (3, 6, 8), "batch_size": 2}
    made = []
    # MXNet's parts are not of equal size.
    keep = {"tail": "keep"} if mx.__name__ == "hybridc" else {}
    for options in (
        {**where, **shape},
        {**indexed, **shape, **keep, "num_parts": 2, "part_index": 1},
        {**indexed, **shape, **keep, "num_parts": 2, "part_index": 0},
        {**where, **shape, **normal, "resize": 10, "mirror": True},
        {**where, "data_shape": (1, 5, 9), "batch_size": 5, "dtype": "uint8"},
        {**where, "data_shape": (3, 25, 39), "batch_size": 5, "pad": 3, "fill_value": 7, "dtype": "uint8"},
        {**where, "data_shape": (3, 30, 40), "batch_size": 5, "dtype": "uint8"},
        {**where, "data_shape": (3, 10, 40), "batch_size": 5, "dtype": "uint8"},
    ):
        iterator = mx.io.ImageRecordIter(**options)
        for _ in range(2):
            made += [x.asnumpy() for batch in iterator for x in (*batch.data, *batch.label)]
            iterator.reset()
        made += texts([[tuple(x) for x in iterator.provide_data], [tuple(x) for x in iterator.provide_label]])
    return made


@case
def record_distortions(mx, folder):
    image_records(mx, folder, float)
    options = {"path_imgrec": str(folder / "i.rec"), "preprocess_threads": 1, "batch_size": 2, "data_shape": (3, 6, 8)}
    made = []
    for given in (
        {"rotate": 30, "max_random_scale": 0.8, "min_random_scale": 0.8, "fill_value": 7},
        {"min_img_size": 50.0},
        {"max_crop_size": 7, "min_crop_size": 7},
    ):
        iterator = mx.io.ImageRecordIter(**options, **given, dtype="uint8")
        made += [x.asnumpy() for batch in iterator for x in batch.data]
    for mean in (0, 9):  # the mean is written, then read
        iterator = mx.io.ImageRecordIter(**options, mean_img=str(folder / "mean"), mean_r=mean)
        made += [x.asnumpy() for batch in iterator for x in batch.data]
    return [*made, mx.nd.load(str(folder / "mean"))["mean_img"].asnumpy()]


@case
def array_iterators(mx, folder):
    data, label = np.arange(20).reshape(10, 2), np.arange(10) * 10
    made = []
    for handle in ("pad", "discard", "roll_over"):
        for shuffle in (False, True):
            for size in (3, 5, 10):
                seeded(mx)
                made += epochs(mx.io.NDArrayIter(data, label, size, shuffle, handle))
    made += epochs(mx.io.NDArrayIter(data[:3], label[:3], 8))
    several = mx.io.NDArrayIter([data, data * 2], {"b": label, "a": mx.nd.array(label, dtype="int32")}, 4, layout="NC")
    made += epochs(several, 1)
    made += texts([several.provide_data, several.provide_label, [tuple(x) for x in several.provide_data]])
    resized = mx.io.ResizeIter(mx.io.NDArrayIter(data, label, 4, last_batch_handle="discard"), 5)
    made += epochs(resized, 2)
    ahead = mx.io.PrefetchingIter([mx.io.NDArrayIter(data, label, 4), mx.io.NDArrayIter(data * 3, None, 4)])
    return made + epochs(ahead, 2)


# --- what does not draw random numbers of gluon.data.vision ---


@case
def transformed(mx, folder):
    t = mx.gluon.data.vision.transforms
    x, batch = array(mx, noise(12, 9)), array(mx, np.stack([noise(12, 9), noise(12, 9, seed=4)]))
    made = [
        f(x).asnumpy()
        for f in (t.Resize(7), t.Resize((7, 20)), t.Resize(7, True), t.Resize(7, True, 0), t.Resize(5, False, 3))
    ]
    made += [
        f(x).asnumpy()
        for f in (t.CenterCrop(5), t.CenterCrop((20, 6)), t.CropResize(1, 2, 5, 6), t.CropResize(1, 2, 5, 6, (4, 9), 1))
    ]
    made += [
        f(batch).asnumpy()
        for f in (t.Resize(7), t.CropResize(1, 2, 5, 6), t.CropResize(1, 2, 5, 6, 4, 1), t.ToTensor())
    ]
    tensor = t.ToTensor()(x)
    made += [f(tensor).asnumpy() for f in (t.Rotate(30), t.Rotate(-50, True), t.Rotate(45, zoom_out=True))]
    made.append(t.Compose([t.Resize(8), t.CenterCrop(6), t.ToTensor(), t.Normalize(0.5, 0.2)])(x).asnumpy())
    return made


@case
def transformed_at_random(mx, folder):
    seeded(mx)
    t = mx.gluon.data.vision.transforms
    x = array(mx, noise(12, 9))
    # With a range of nothing the random number is known: the factor is 1 and the colour stays.
    same = [
        t.RandomBrightness(0),
        t.RandomContrast(0),
        t.RandomSaturation(0),
        t.RandomHue(0),
        t.RandomLighting(0),
    ]
    made = [f(x).asnumpy() for f in same]
    for kind, channels in ((t.RandomBrightness, (1, 3)), (t.RandomContrast, (1, 3)), (t.RandomHue, (3,))):
        for factor in (0.3, 0.9, 1.4):
            f = kind(0.1)
            f._args = (factor, factor)  # a range of one number
            images = [noise(12, 9, n, dtype) for n in channels for dtype in ("uint8", "float32")]
            made += [f(array(mx, image)).asnumpy() for image in images]
    return made


@case
def folders(mx, folder):
    for i, name in enumerate(image_files(folder)):
        inside = folder / "root" / f"class{i % 2}"
        inside.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes((folder / name).read_bytes())
    vision = mx.gluon.data.vision
    (folder / "root" / "class1" / "notes.txt").write_text("no image")
    made = []
    for flag in (0, 1):
        images = vision.ImageFolderDataset(str(folder / "root"), flag)
        made.append(np.array([len(images), *(images[i][1] for i in range(len(images)))]))
        made += [images[i][0].asnumpy() for i in range(len(images))]
    made += texts([images.synsets, [(Path(path).name, label) for path, label in images.items]])
    image_records(mx, folder)
    stored = vision.ImageRecordDataset(str(folder / "i.rec"))
    made.append(np.array([len(stored), *(stored[i][1] for i in range(len(stored)))]))
    made += [stored[i][0].asnumpy() for i in range(len(stored))]
    raw = mx.gluon.data.RecordFileDataset(str(folder / "i.rec"))
    return [*made, np.array(len(raw)), np.frombuffer(raw[1], np.uint8)]

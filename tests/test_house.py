"""The structure of the package: imports point one way, and one name is one thing."""

from __future__ import annotations

from tests import house


def test_imports_point_upwards_in_the_list_of_layers():
    wrong = house.upwards(house.imports(house.modules()))
    assert not wrong, "a layer imports a later one:\n" + "\n".join(map(str, wrong))


def test_every_module_has_a_layer_and_every_layer_a_module():
    used = {house.layer(name) for name in house.modules()}
    assert used == set(range(len(house.LAYERS)))


def test_no_circle_of_imports_leaves_its_folder():
    for circle in house.circles(house.imports(house.modules()), typing=True):
        folders = {house.folder(name) for name in circle}
        assert len(folders) == 1, f"these files import each other: {', '.join(sorted(circle))}"

"""The fixtures in a class of unittest: run it with pytest, which attaches them."""

import unittest

import pytest
from pipeline import Train


class TestTrain(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _attach_pai(self, pai):
        self.pai = pai

    def setUp(self):
        self.pai.when("*").succeeds()

    def test_one_job(self):
        Train(rate=0.5).run()
        assert self.pai.submitted == ["train-0.5"]

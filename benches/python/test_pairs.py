"""Tests of `pairs.py`, which need no torch. Run `python3 -m unittest` in this folder."""

import unittest

import pairs


class Pairs(unittest.TestCase):
    def test_ranks_are_those_of_the_tables_for_the_sign_test(self):
        ranks = [pairs.interval_rank(count) for count in (1, 5, 6, 10, 20, 25, 50, 100)]
        self.assertEqual(ranks, [None, None, 0, 1, 5, 7, 17, 39])
        self.assertIn(pairs.interval_rank(5000), range(2429, 2432))

    def test_an_estimate_is_a_median_and_its_interval(self):
        self.assertEqual(pairs.estimate([5.0, 1.0, 2.0, 3.0, 4.0, 6.0]), (3.5, 1.0, 6.0))
        self.assertEqual(pairs.estimate([1.0, 2.0]), (1.5, None, None))

    def test_neighbours_find_what_was_added_to_recorded_steps(self):
        # The machine becomes steadily slower.
        steps = [100.0 + step for step in range(40)]
        for index in range(40):
            if pairs.is_recorded(pairs.WARM_UP + index):
                steps[index] *= 1.05
        self.assertAlmostEqual(pairs.neighbours(steps), 0.05, delta=2e-3)

    def test_epochs_are_compared_step_by_step(self):
        without = [100.0, 200.0, 400.0]
        self.assertAlmostEqual(pairs.paired([50.0, 220.0, 440.0], without), 0.1)
        self.assertEqual(pairs.paired(without, without), 0.0)


if __name__ == "__main__":
    unittest.main()

"""Make the data of the examples: synthetic people, drawn from a fixed seed.

Run ``python examples/make_data.py`` to write the files again; the result is always the same.
Nobody in them exists.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from incrowd import graphs

HERE = Path(__file__).parent
MODES = {"bus": 0.22, "bike": 0.18, "car": 0.34, "walk": 0.11, "train": 0.15}
AGES = {
    "18-29": 0.20, "30-39": 0.18, "40-49": 0.17, "50-59": 0.17, "60-69": 0.14, "70-79": 0.09,
    "80+": 0.05,
}  # fmt: skip
BMI = ("under 20", "20-25", "25-30", "30-35", "35+")
HOME = {"never": 0.5, "one or two days": 0.3, "more": 0.2}
MINUTES = {"bus": 34, "bike": 21, "car": 27, "walk": 17, "train": 48}


def commuters(people: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """How people get to work and how long it takes them, in whole minutes up to two hours."""
    modes = rng.choice(list(MODES), size=people, p=list(MODES.values()))
    typical = np.array([MINUTES[mode] for mode in modes])
    minutes = np.clip(np.round(typical * rng.lognormal(0, 0.35, people)), 1, 120).astype(int)
    return [
        {"mode": str(mode), "minutes": int(each)} for mode, each in zip(modes, minutes, strict=True)
    ]


def employees(people: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """How people get to work, how long it takes, how often they stay at home, what they earn.

    Whoever works at home more often earns more. One in twenty does not say how they travel, one in
    twelve does not say what they earn, and some go by a boat that nobody thought of.
    """
    found = commuters(people, rng)
    home = rng.choice(len(HOME), size=people, p=list(HOME.values()))
    income = np.round(rng.lognormal(10.3 + 0.2 * home, 0.5, people), -2).astype(int)
    boats, silent, secret = (rng.random(people) < share for share in (0.01, 0.05, 0.08))
    rows: list[dict[str, object]] = []
    for i, each in enumerate(found):
        mode = "boat" if boats[i] else each["mode"]
        rows.append(
            {
                "person": f"p{i:05d}",
                "mode": "" if silent[i] else mode,
                "home": list(HOME)[home[i]],
                "minutes": each["minutes"],
                "income": "" if secret[i] else int(income[i]),
            }
        )
    return rows


def patients(people: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """Whether people have a condition that three in a hundred have."""
    ill = rng.random(people) < 0.03
    return [{"condition": "yes" if each else "no"} for each in ill]


def guests(people: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """What people think of the meatless day of their canteen."""
    votes = rng.choice(["keep", "drop", "no matter"], size=people, p=[0.48, 0.31, 0.21])
    return [{"vote": str(each)} for each in votes]


def insured(people: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """Patients: how old and how heavy they are, and the insulin in their blood, in mU/l."""
    age = rng.choice(len(AGES), size=people, p=list(AGES.values()))
    weight = np.clip(rng.normal(25.5 + 0.5 * age, 4.8, people), 17, 44)
    bmi = np.digitize(weight, [20, 25, 30, 35])
    diabetic = rng.random(people) < 0.02 + 0.02 * age + 0.04 * np.maximum(bmi - 1, 0)
    typical = 6.5 * np.exp(0.055 * (weight - 25) + 0.02 * age) * np.where(diabetic, 1.5, 1.0)
    insulin = np.clip(np.round(typical * rng.lognormal(0, 0.4, people), 1), 0.5, 50.0)
    sex = rng.choice(["female", "male"], size=people)
    ages = list(AGES)
    return [
        {
            "age_range": ages[age[i]],
            "bmi": BMI[bmi[i]],
            "insulin": float(insulin[i]),
            "sex": str(sex[i]),
            "diabetic": "yes" if diabetic[i] else "no",
        }
        for i in range(people)
    ]


def townspeople(people: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """Where people of a town live, and whether they were ill: two quarters had an outbreak.

    Homes lie around five centres of quarters, at most some kilometres apart.
    """
    centres = np.array([(0.0, 0.0), (1.9, 1.2), (-1.6, 1.8), (2.2, -1.7), (-2.1, -1.4)])
    quarter = rng.choice(len(centres), size=people, p=[0.3, 0.2, 0.2, 0.15, 0.15])
    north, east = (centres[quarter] + rng.normal(0, 0.65, (people, 2))).T
    flu = 0.08 + 0.6 * np.exp(-((north - 1.9) ** 2 + (east - 1.2) ** 2) / 0.7)
    stomach = 0.05 + 0.55 * np.exp(-((north + 2.1) ** 2 + (east + 1.4) ** 2) / 0.6)
    drawn = rng.random(people)
    illness = np.where(drawn < flu, "flu", np.where(drawn < flu + stomach, "stomach", "none"))
    lat = np.round(50.9 + north / 111.2, 5)
    lon = np.round(11.6 + east / (111.2 * np.cos(np.radians(50.9))), 5)
    names = ("centre", "mill", "hill", "harbour", "fields")
    return [
        {
            "lat": float(lat[i]),
            "lon": float(lon[i]),
            "quarter": names[quarter[i]],
            "illness": str(illness[i]),
        }
        for i in range(people)
    ]


def friends(people: int, rng: np.random.Generator) -> graphs.Graph:
    """Who knows whom: whoever joins befriends five others, the popular ones more often."""
    return graphs.barabasi_albert(people, 5, rng)


def write(name: str, rows: list[dict[str, object]]) -> None:
    """One CSV file with a header."""
    with (HERE / name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Write every file."""
    write("commute.csv", commuters(4000, np.random.default_rng(20240601)))
    write("condition.csv", patients(10_000, np.random.default_rng(20240602)))
    write("canteen.csv", guests(400, np.random.default_rng(20240604)))
    write("patients.csv", insured(1000, np.random.default_rng(20240605)))
    write("town.csv", townspeople(3000, np.random.default_rng(20240606)))
    write("work.csv", employees(12_000, np.random.default_rng(20240607)))
    graphs.save(friends(4000, np.random.default_rng(20240603)), HERE / "friends.npz")


if __name__ == "__main__":
    main()

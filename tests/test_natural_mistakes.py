"""What people who know pandas and SQL write by mistake: each gets one short message of ours that says what is wrong."""

import numpy as np
import pandas as pd
import pytest
from IPython.core.error import UsageError

import dpnotebook as dpn
from dpnotebook.errors import DomainError, UnknownVerb
from dpnotebook.testing import exact_session

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "insured": bool, "cost": dpn.Bins(0, 500, width=10)}
MOST = 400  # characters of a message

# What is written, and the part of the message that names the problem.
MISTAKES = [
    ("df.dp.mean('agee', epsilon=0.1)", "'agee' is not declared in the domain of 'visits'; did you mean"),
    ("df.dp.mean('Age', epsilon=0.1)", "'Age' is not declared in the domain of 'visits'; did you mean"),
    (
        "df.dp.count(where=\"sex == 'f'\", epsilon=0.1)",
        "sex has no level 'f', did you mean 'F'?; its levels are 'F', 'M'",
    ),
    ("df.dp.count(where=\"sex == 'X'\", epsilon=0.1)", "sex has no level 'X'; its levels are 'F', 'M'"),
    ("df.dp.count(where='agee > 3', epsilon=0.1)", "there is no declared column 'agee'; did you mean 'age'?"),
    ("df.dp.count(where='age = 3', epsilon=0.1)", "where= is not understood: 'age = 3'; write == to compare"),
    ("df.dp.count(where='!insured', epsilon=0.1)", "where= is not understood: write 'not' for !"),
    ("df.dp.count(where='age > 3 && insured', epsilon=0.1)", "where= is not understood: write 'and' for &&"),
    ("df.dp.count(where='age > 3 || insured', epsilon=0.1)", "where= is not understood: write 'or' for ||"),
    ("df.dp.count(where='age <> 3', epsilon=0.1)", "where= is not understood: write != for <>"),
    (
        "df.dp.count(where='age > 3 AND insured', epsilon=0.1)",
        "where= is not understood: 'age > 3 AND insured'; write and, or,",
    ),
    ("df.dp.count(where=\"age > '3'\", epsilon=0.1)", "age holds numbers, and '3' is a text; write it without quotes"),
    ("df.dp.count(where='sex == 1', epsilon=0.1)", "sex has no level 1; its levels are 'F', 'M'"),
    (
        "df.dp.count(where='age IS NULL', epsilon=0.1)",
        "where= is not understood: 'age IS NULL'; write column.isna() or",
    ),
    ("df.dp.count(where='age BETWEEN 3 AND 5', epsilon=0.1)", "where= is not understood: 'age BETWEEN 3 AND 5'; write"),
    ("df.dp.count(where=\"sex LIKE 'F%'\", epsilon=0.1)", "where= is not understood: \"sex LIKE 'F%'\"; write"),
    (
        "df.dp.count(where=\"sex.str.contains('F|M')\", epsilon=0.1)",
        "patterns are not supported",
    ),
    (
        "df.dp.count(where=\"sex.str.lower() == 'f'\", epsilon=0.1)",
        "sex.str.lower() is not supported",
    ),
    (
        "df.dp.count(where='age > @limit', epsilon=0.1)",
        "where= is not understood: @ cannot be followed, since the text",
    ),
    ("df.dp.count(where='df.age > 3', epsilon=0.1)", "df.age: a name after a dot is not supported, except .isna(),"),
    (
        "df.dp.count(where=\"df['age'] > 3\", epsilon=0.1)",
        "df['age']: square brackets after a name are not supported; write",
    ),
    ("df.dp.count(where='sex == F', epsilon=0.1)", "F is not a declared column; a text stands in quotes"),
    ("df.dp.count(where='', epsilon=0.1)", "where= is empty; leave it out to count every row"),
    ("df.dp.count(where='age * 2 > 3', epsilon=0.1)", "age * 2: arithmetic is not supported; compare a column with a"),
    ("df.dp.count(where='age > cost', epsilon=0.1)", "age and cost are both columns; a column is compared with values"),
    (
        "df.dp.count(where=\"day > '2024-01-01'\", epsilon=0.1)",
        "there is no declared column 'day'; the domain declares age, sex,",
    ),
    ("df.dp.count(where=\"note == 'x'\", epsilon=0.1)", "there is no declared column 'note'; the domain declares age,"),
    ("df.dp.count(where='age > 200', epsilon=0.1)", "nothing in the declared domain satisfies this condition,"),
    (
        "df.dp.count(where=\"sex == 'F' and sex == 'M'\", epsilon=0.1)",
        "nothing in the declared domain satisfies this condition,",
    ),
    ("df.dp.count(where='age > 3 and (', epsilon=0.1)", "where= is not understood: 'age > 3 and ('; write it as for"),
    ("df.dp.count(where='cost > 5', epsilon=0.1)", "cost > 5 cuts through the bin [0, 10); the nearest edges are 0"),
    ("df.dp.count(where='age > 3.5.1', epsilon=0.1)", "where= is not understood: 'age > 3.5.1'; write it as for"),
    (
        "df.dp.count(where=lambda d: d.age > 3, epsilon=0.1)",
        "where= is a text such as \"age >= 65 and sex == 'F'\", not a",
    ),
    ("df.dp.count(where={'age': 3}, epsilon=0.1)", "where= is a text such as \"age >= 65 and sex == 'F'\", not a dict"),
    (
        "df.dp.count(where=df.age > 3, epsilon=0.1)",
        "where= is a text such as \"age >= 65 and sex == 'F'\", not a Series",
    ),
    ("df.dp.count(where=True, epsilon=0.1)", "where= is a text such as \"age >= 65 and sex == 'F'\", not a bool"),
    (
        "df.dp.count(where=(df.age > 3) & (df.sex == 'F'), epsilon=0.1)",
        "where= is a text such as \"age >= 65 and sex == 'F'\", not a Series",
    ),
    ("df.dp.count('age > 3', epsilon=0.1)", "count() cannot be called so: too many positional arguments"),
    (
        "df.dp.count(where=\"sex in 'F'\", epsilon=0.1)",
        "after 'in' stands a list of values, such as ['F', 'M'], not 'F'",
    ),
    ("df.dp.count(where=\"sex in ('F','M','Q')\", epsilon=0.1)", "sex has no level 'Q'; its levels are 'F', 'M'"),
    ("df.dp.count(where='sex not in F', epsilon=0.1)", "F is not a declared column; a text stands in quotes"),
    (
        "df.dp.count(where='insured == TRUE', epsilon=0.1)",
        "TRUE is not a value here; write True or False, or column.isna()",
    ),
    ("df.dp.count(where=\"insured == 'True'\", epsilon=0.1)", "insured has no level 'True'; write True"),
    (
        "df.dp.count(where='insured is True', epsilon=0.1)",
        "'is' is not supported; write == to compare, or column.isna() for",
    ),
    ("df.dp.count(where='insured > 0', epsilon=0.1)", "insured is true or false, so > means nothing: write insured or"),
    ("df.dp.count(where='age == None', epsilon=0.1)", "nothing equals None; write column.isna() or column.notna() for"),
    ("df.dp.count(where='age == nan', epsilon=0.1)", "nan is not a value here; write True or False, or column.isna()"),
    ("df.dp.count(where=\"sex > 'F'\", epsilon=0.1)", "the levels of sex have no order, so > means nothing: write sex"),
    (
        "df.dp.count(where=\"3 < age < 'x'\", epsilon=0.1)",
        "age holds numbers, and 'x' is a text; compare it with a number",
    ),
    (
        "df.dp.count(where='age > 3; drop table visits', epsilon=0.1)",
        "where= is not understood: 'age > 3; drop table visits'; write it",
    ),
    ("df.dp.count(where='age % 2 == 0', epsilon=0.1)", "age % 2: arithmetic is not supported; compare a column with a"),
    (
        "df.dp.count(where='abs(age) > 3', epsilon=0.1)",
        "the function abs is not supported; write a condition on columns",
    ),
    ("df.dp.count(where='`age > 3', epsilon=0.1)", "where= is not understood: there is a backtick without its"),
    ("df.dp.count()", "say how accurate the answer must be, or what it may cost:"),
    ("df.dp.count(epsilon=0.1, error=5)", "say how accurate the answer must be, or what it may cost:"),
    ("df.dp.count(epsilon=-1)", "epsilon must be a finite number above 0, not -1"),
    ("df.dp.count(epsilon=0)", "epsilon must be a finite number above 0, not 0"),
    ("df.dp.count(epsilon='0.1')", "epsilon must be a number above 0, not '0.1'"),
    ("df.dp.count(epsilon=True)", "epsilon must be a number above 0, not True"),
    ("df.dp.count(epsilon=float('inf'))", "epsilon must be a finite number above 0, not inf"),
    ("df.dp.count(epsilon=float('nan'))", "epsilon must be a finite number above 0, not nan"),
    ("df.dp.count(epsilon='5%')", "epsilon must be a number above 0, not '5%'"),
    ("df.dp.count(error='25')", "error= is a number in the answer's own units, or a percentage of"),
    ("df.dp.count(error='small')", "error= is a number in the answer's own units, or a percentage of"),
    ("df.dp.count(error=0)", "error must be a finite number above 0, not 0"),
    ("df.dp.count(error='-5%')", "error= is a number in the answer's own units, or a percentage of"),
    ("df.dp.count(error=5, confidence=95)", "confidence must lie between 0 and 1, such as 0.95, not 95"),
    ("df.dp.count(error=5, confidence='95%')", "confidence must be a number above 0, not '95%'"),
    ("df.dp.count(eps=0.1)", "count() takes no eps=; did you mean epsilon=?"),
    ("df.dp.std(epsilon=0.1)", "std() cannot be called so: missing a required argument: 'column'"),
    ("df.dp.std('sex', epsilon=0.1)", "std is of numbers, and 'sex' holds texts; value_counts('sex') counts them"),
    ("df.dp.std('note', epsilon=0.1)", "std is of numbers, and 'note' holds texts"),
    (
        "df.dp.std('day', epsilon=0.1)",
        "holds times; a column of its hours or days holds numbers, such as df['day'].dt.hour",
    ),
    ("df.dp.std('agee', epsilon=0.1)", "'agee' is not declared in the domain of 'visits'; did you mean 'age'?"),
    ("df.dp.std(['age', 'cost'], epsilon=0.1)", "['age', 'cost'] is not declared in the domain of 'visits'"),
    ("df.dp.std(df.age, epsilon=0.1)", "a Series holds values: write its name, 'age'"),
    ("df.dp.std(df, epsilon=0.1)", "a DataFrame holds values: write the name of a column"),
    ("df.dp.std('age', axis=0, epsilon=0.1)", "std() takes no axis=; it is always of rows: leave axis= out"),
    ("df.dp.std('age', numeric_only=True, epsilon=0.1)", "std() takes no numeric_only="),
    ("df.dp.std('age', ddof=0.5, epsilon=0.1)", "ddof= is 1, as in pandas, or 0; not 0.5"),
    ("df.dp.std('age', where=df.age > 3, epsilon=0.1)", "where= is a text such as"),
    ("df.dp.std('age', error=5, variance=3)", "say how accurate the answer must be, or what it may cost:"),
    ("df.dp.std('age', epsilon=0.1, objective='worst')", "std() takes no objective="),
    ("df.dp.std('age', epsilon=0.1).value", "a query has no value before it is run: query.run().value"),
    ("df.dp.stdev('age', epsilon=0.1)", "df.dp has no stdev; did you mean std?"),
    ("df.dp.skew('age', epsilon=0.1)", "skew is not answered; near it are describe("),
    ("df.dp.sem('age', error=0.1)", "sem is worked out from a spread and a number, for which no error can be asked"),
    ("df.dp.corr(epsilon=0.1)", "corr() cannot be called so: missing a required argument: 'column'"),
    ("df.dp.corr('age', epsilon=0.1)", "corr() cannot be called so: missing a required argument: 'other'"),
    ("df.dp.corr('age', df.cost, epsilon=0.1)", "a Series holds values: write its name, 'cost'"),
    ("df.dp.corr('age', 'age', epsilon=0.1)", "corr is of two columns; of one and the same it is 1"),
    ("df.dp.corr('age', 'cost', method='spearman', epsilon=0.1)", "corr() takes no method="),
    ("df.dp.corr('age', 'sex', epsilon=0.1)", "corr is of numbers, and 'sex' holds texts"),
    ("df.dp.corrwith('cost', epsilon=0.1)", "corrwith is of two columns here, which are named: corr('age', 'cost'"),
    ("df.dp.cov('age', 'cost', ddof=3, epsilon=0.1)", "ddof= is 1, as in pandas, or 0; not 3"),
    ("df.dp.nunique(epsilon=0.1)", "each row is a unit of its own here, so count(epsilon=0.1) counts them"),
    ("df.dp.nunique(['pid'], epsilon=0.1)", "['pid'] is not declared in the domain of 'visits'"),
    ("df.dp.min('sex', epsilon=0.1)", "min is of numbers, and 'sex' holds texts"),
    ("df.dp.max('age')", "say how accurate the answer must be, or what it may cost:"),
    ("df.dp.groupby('sex').max('sex', epsilon=0.1)", "max is of numbers, and 'sex' holds texts"),
    ("df.dp.agg({'age': ['std', np.std]}, epsilon=0.1)", "agg() takes the names of functions, not a function; write"),
    ("df.dp.agg({'age': ['std', 'std']}, epsilon=0.1)", "agg() takes each function of a column once"),
    ("df.dp.agg({'sex': 'std'}, epsilon=0.1)", "std is of numbers, and 'sex' holds texts"),
    ("df.dp.agg({'age': 'std'}, error=3, fresh=2)", "fresh= is True or False, not 2"),
    ("df.dp.agg({'age': 'std'}, epsilon=1, objective='worst')", "objective= is for what the planner measures"),
    ("session.std('age')", "std is asked of a table: session.table('visits').std(...)"),
    ("dpn.Range(0, 99, unit=df.age)", "unit= is a text, such as unit='dollars'"),
    ("dpn.Bins(0, 99, width=9, label=3)", "label= is a text, such as unit='dollars'"),
    ("df.dp.count(ε=0.1)", "count() takes no ε=; it takes where, epsilon, error, variance,"),
    ("df.dp.count(epsilon=0.1, delta=1e-06)", "count() takes no delta=; it takes where, epsilon, error,"),
    ("df.dp.count(epsilon=100).run()", "is left; nothing was"),
    ("df.dp.count(0.1)", "count() cannot be called so: too many positional arguments"),
    ("df.dp.count(epsilon=0.1, fresh='yes')", "fresh= is True or False, not 'yes'"),
    ("df.dp.count(epsilon=0.1, objective='best')", 'objective= is "total" (the squared errors of all answers'),
    ("df.dp.count(epsilon=dpn.Budget(0.1))", "epsilon must be a number above 0, not Budget(epsilon=0.1,"),
    ("df.dp.histogram('age', 'sex', epsilon=0.1)", "histogram() cannot be called so: too many positional arguments"),
    ("df.dp.histogram(epsilon=0.1)", "histogram() cannot be called so: missing a required argument:"),
    ("df.dp.histogram('age', bins=10, epsilon=0.1)", "histogram() takes no bins=; bins are those that are declared,"),
    ("df.dp.crosstab('sex', epsilon=0.1)", "crosstab takes two or more attributes; histogram takes one"),
    ("df.dp.crosstab(['sex', 'insured'], epsilon=0.1)", "crosstab takes two or more attributes; histogram takes one"),
    ("df.dp.crosstab('sex', 'insured', normalize='row', epsilon=0.1)", 'normalize= is True, False, "all", "index"'),
    ("df.dp.groupby('sex').agg(eps=0.1)", "agg() takes no eps=; did you mean epsilon=?"),
    ("df.dp.groupby('sex').agg(sex=('age', 'mean'), epsilon=0.1)", "the answer cannot be called 'sex'"),
    ("df.dp.groupby('sex').value_counts('insured', epsilon=0.1)", "is a count by more keys: groupby(['sex'"),
    ("df.dp['agee'].mean(epsilon=0.1)", "'agee' is not declared in the domain of 'visits'; did you mean"),
    ("df.dp[df.dp['age'] > 50]", "a condition is a text, in where="),
    ("df.dp.mean('sex', epsilon=0.1)", "'sex' is declared as Categories(['F', 'M']): only a Range, Bins"),
    ("df.dp.mean(epsilon=0.1)", "mean() cannot be called so: missing a required argument: 'column'"),
    ("df.dp.mean(['age', 'cost'], epsilon=0.1)", "one column is asked here, and several by agg(), or in brackets"),
    ("df.dp.mean('age', where='insured', error=2).plan", "the error of a mean depends on the number of rows, which"),
    ("df.dp.sum('sex', epsilon=0.1)", "'sex' is declared as Categories(['F', 'M']): only a Range, Bins"),
    ("df.dp.sum('age', bounds=(10, 5), epsilon=0.1)", "bounds of 'age' must be finite and increasing, not (10, 5)"),
    ("df.dp.sum('age', bounds=(0, 500), epsilon=0.1)", "bounds (0, 500) reach beyond the declaration of 'age', where"),
    ("df.dp.sum('age', bounds=50, epsilon=0.1)", "bounds of 'age' must be two numbers (low, high), not 50"),
    ("df.dp.quantile('age', 50, epsilon=0.1)", "a quantile lies between 0 and 1, such as 0.5 for the median; not"),
    (
        "df.dp.quantile('sex', 0.5, epsilon=0.1).plan",
        "'sex' is declared as Categories(['F', 'M']): a quantile needs an",
    ),
    ("df.dp.quantile('age', '50%', epsilon=0.1)", "a quantile lies between 0 and 1, such as 0.5 for the median; not"),
    ("df.dp.median('sex', epsilon=0.1).plan", "'sex' is declared as Categories(['F', 'M']): a quantile needs an"),
    ("df.dp.groupby()", "groupby() cannot be called so: missing a required argument: 'keys'"),
    ("df.dp.groupby('sx')", "'sx' is not declared in the domain of 'visits'; did you mean"),
    ("df.dp.groupby('sex', 'insured')", "groupby() cannot be called so: too many positional arguments"),
    ("df.dp.groupby('sex', as_index=True)", "groupby() takes no as_index=True: keys are columns of an answer;"),
    ("df.dp.groupby('sex', by='sex')", "groupby() takes no by='sex': the keys are there already"),
    ("df.dp.groupby('note')", "session.sql(...) asks about columns that are not declared"),
    ("df.dp.mean('age * cost', epsilon=0.1)", "session.sql('SELECT AVG(age * cost) FROM visits', epsilon=0.1)"),
    ("len(df.dp.groupby('sex'))", "len tells the exact number of rows, which is not public;"),
    ("list(df.dp.groupby('sex'))", "len tells the exact number of rows, which is not public;"),
    ("len(df.dp)", "len tells the exact number of rows, which is not public;"),
    ("list(df.dp)", "len tells the exact number of rows, which is not public;"),
    ("df.dp[df.age > 3]", "a condition in brackets chooses rows; here every verb has"),
    ("df.dp.isna()", "isna looks at each row; of a column that is declared nullable=True,"),
    ("df[df.age > 3].dp.count(epsilon=0.1)", "this frame is not protected. A filtered or copied frame is a new"),
    ("df.copy().dp.count(epsilon=0.1)", "this frame is not protected. A filtered or copied frame is a new"),
    ("df['age'].dp.mean(epsilon=0.1)", "a column has no dp: ask its frame, and name it:"),
    ("df.dp.count(epsilon=0.1).value", "a query has no value before it is run: query.run().value"),
    ("df.dp.count(epsilon=0.1).frame", "a query has no frame before it is run: query.run().frame"),
    ("float(df.dp.count(epsilon=0.1))", "a query has no value before it is run: query.run().value"),
    ("df.dp.count(epsilon=0.1)['value']", "a query has no frame before it is run: query.run().frame"),
    ("df.dp.count(epsilon=0.1).at()", "say how accurate the answer must be, or what it may cost:"),
    ("df.dp.count(epsilon=0.1).plot()", "a query has no plot before it is run: query.run().plot"),
    ("df.dp.count(epsilon=0.1).where('age>3')", "a query has no where before it is run: query.run().where"),
    ("df.dp.count(epsilon=0.1).execute()", "a query has no execute; it has plan, run, at,"),
    ("df.dp.count(epsilon=0.1).result()", "a query has no result; it has plan, run, at,"),
    ("release.value", "this release has 2 answers: use .frame"),
    ("release.interval", "this release has 2 answers: use .frame"),
    ("one / release", "releases are compared row by row, by the same keys: not by nothing and by sex"),
    ("release.to_csv()", "to_csv() cannot be called so: missing a required argument: 'path'"),
    ("release.to_csv(5)", "to_csv takes the path of a file, such as 'ages.csv', not 5"),
    ("release.samples(0)", "draws= is a whole number from 1 to 100,000, not 0"),
    ("release.nonnegative('all')", "total= is the number of rows, a finite number of at least 0; not"),
    ("protect(domain={'sex': 'F'})", "column 'sex': levels are a list such as ['F', 'M'], not 'F'"),
    ("protect(domain={'sex': dpn.Range(0, 9)})", "'sex' is declared as Range(0, 9), which is for numbers, but the"),
    ("protect(domain={'sx': ['F']})", "'sx' is in the domain but not in the table, whose columns are"),
    ("protect(domain={'sex': {'F', 'M'}})", "column 'sex': levels are a list, not a set: a set has no order,"),
    ("protect(domain={'age': int})", "column 'age': int alone does not say which values there are;"),
    ("protect(domain={'sex': str})", "column 'sex': str alone does not say which values there are;"),
    ("protect(domain={'cost': float})", "column 'cost': float alone does not say which values there are;"),
    ("protect(domain={'age': 'int64'})", "column 'age': levels are a list such as ['F', 'M'], not 'int64'"),
    ("protect(domain={'age': None})", "column 'age': levels are a list such as ['F', 'M'], not None"),
    ("protect(domain=['age', 'sex'])", "a domain is a dict from column names to levels, not ['age', 'sex']"),
    ("protect(domain={'age': dpn.Range(99, 0)})", "Range(99, 0) is empty: its low end is above its high end"),
    ("dpn.Range(0, 9.5)", "the high end of a Range is a whole number, not 9.5; for"),
    ("dpn.Range('0', 9)", "the low end of a Range is a number, not '0'"),
    ("dpn.Range(9)", "Range() cannot be called so: missing a required argument: 'high'"),
    ("dpn.Bins(0, 100)", "Bins are declared in one of these ways: Bins(low, high,"),
    ("dpn.Bins(0, 100, width=33)", "width=33 does not divide the span from 0 to 100; width=25 (4"),
    ("dpn.Bins(0, 100, width=-5)", "width= is above 0, not -5"),
    ("dpn.Bins(0, 100, width=5, count=20)", "Bins are declared in one of these ways: Bins(low, high,"),
    ("dpn.Bins(0, 100, step=10)", "Bins() takes no step=; it takes low, high, width, count, edges,"),
    ("dpn.Bins(0, 100, 10)", "Bins() cannot be called so: too many positional arguments"),
    ("dpn.Categories('FM')", "levels are a list such as ['F', 'M'], not 'FM'"),
    ("dpn.Categories('F', 'M')", "Categories() cannot be called so: too many positional arguments"),
    ("dpn.Categories(['F', 'F'])", "the level 'F' is listed twice"),
    ("dpn.Categories(['F', 1])", "levels are of one kind, and these mix number and text"),
    ("dpn.Categories([])", "there are no levels: list the values that the column can have"),
    ("dpn.Boolean(True)", "Boolean() cannot be called so: too many positional arguments"),
    (
        "protect(domain={'age': dpn.Range(0, 99)}, unit='pidd', max_rows=2)",
        "unit='pidd' is not a column of the table, whose columns are age,",
    ),
    (
        "protect(domain={'age': dpn.Range(0, 99)}, unit='pid').cdf('age', epsilon=0.1).plan",
        "how many rows of one pid count in v has not been said, and this",
    ),
    (
        "protect(domain={'age': dpn.Range(0, 99)}, max_rows=2)",
        "max_rows= bounds the rows of a unit: say which column identifies",
    ),
    (
        "protect(domain={'age': dpn.Range(0, 99)}, unit='pid', max_rows=0)",
        "max_rows= is how many rows of one pid may count at most:",
    ),
    (
        "protect(domain={'age': dpn.Range(0, 99)}, unit='pid', max_rows='2')",
        "max_rows= is how many rows of one pid may count at most:",
    ),
    ("another().protect(df.copy(), domain={})", "protect() cannot be called so: missing a required argument: 'name'"),
    (
        "another().protect('visits', df.copy(), domain={'age': dpn.Range(0, 99)})",
        "a table needs a name, such as 'patients', not a DataFrame",
    ),
    (
        "another().protect(df.copy(), '', domain={'age': dpn.Range(0, 99)})",
        "a table needs a name, such as 'patients', not ''",
    ),
    (
        "another().protect(df.age, 'v', domain={'age': dpn.Range(0, 99)})",
        "cannot protect a Series: give a pandas or polars DataFrame, the",
    ),
    (
        "another().protect({'age': [1]}, 'v', domain={'age': dpn.Range(0, 99)})",
        "cannot protect a dict: give a pandas or polars DataFrame, the",
    ),
    ("another().protect('visits.csv', 'v', domain={'age': dpn.Range(0, 99)})", "there is no file visits.csv"),
    (
        "another().protect(df[['age']].to_numpy(), 'v', domain={'age': dpn.Range(0, 99)})",
        "cannot protect a ndarray: give a pandas or polars DataFrame, the",
    ),
    ("protect(domains={'age': dpn.Range(0, 99)})", "protect() takes no domains=; did you mean domain=?"),
    ("protect(columns=['age'])", "protect() takes no columns=; it takes data, name, domain, unit,"),
    ("dpn.Session(epsilon=1)", "Session() takes no epsilon=; it takes budget, ledger, planner,"),
    ("dpn.Session(1.0)", "budget= takes a Budget, such as dpn.Budget(epsilon=1.0), not 1.0"),
    (
        "dpn.Session(dpn.Budget(1.0), planner='best')",
        "planner must be one of 'optimal', 'pioneer', 'naive', not 'best'",
    ),
    ("dpn.Budget(-1)", "the budget's epsilon must be a finite number above 0, not -1"),
    ("dpn.Budget('1')", "the budget's epsilon must be a number above 0, not '1'"),
    ("dpn.Budget()", "Budget() cannot be called so: missing a required argument:"),
    ("dpn.Budget(1, 1)", "the budget's delta must be a number from 0 up to, not including,"),
    ("dpn.Budget(eps=1)", "Budget() takes no eps=; did you mean epsilon=?"),
    ("session.table('visit')", "no table 'visit' is protected in this session (protected: visits)"),
    ("session.query('SELECT 1')", "a session has no query; SQL is asked by session.sql('SELECT"),
    ("session.execute('SELECT 1')", "a session has no execute; SQL is asked by session.sql('SELECT"),
    ("session.count(epsilon=1)", "count is asked of a table: session.table('visits').count(...)"),
    ("session.budget_left", "a session has no budget_left; session.remaining and"),
    ("session.visits", "a table of a session is session.table('visits')"),
    ("session['visits']", "a table of a session is session.table('visits')"),
    ("session.tables['visits']", "tables() lists all of them; one is session.table('visits')"),
    ("session.tables['visit']", "one is session.table('visit')"),
    ("'visits' in session.tables", "is asked for with parentheses: tables()"),
    ("list(session.tables)", "is asked for with parentheses: tables()"),
    ("df.dp.groupby('sex').agg([(df.age, 'mean')], epsilon=0.1)", "agg() takes the names of functions"),
    ("df.dp.groupby('sex').agg(mean=(df.age, 'mean'), epsilon=0.1)", "write its name, 'age'"),
    ("session.release(99)", "there is no release 99 in the ledger"),
    ("session.release('1')", "releases are numbered 1, 2, 3, as session.history() lists them;"),
    ("session.raise_budget(dpn.Budget(20))", "raise_budget() cannot be called so: missing a required argument:"),
    ("session.raise_budget(20, reason='x')", "a ledger is made for a Budget, such as dpn.Budget(epsilon=1.0);"),
    (
        "session.raise_budget(dpn.Budget(2.0), reason='x')",
        "a budget is only ever raised: Budget(epsilon=2.0, delta=0.0) is",
    ),
    ("session.sql('SELECT COUNT(*) FROM visits')", "say how accurate the answer must be, or what it may cost:"),
    (
        "session.sql('SELECT * FROM visits', epsilon=0.1)",
        "rows cannot be shown; add COUNT(*), SUM(column) or AVG(column)",
    ),
    (
        "session.sql('SELECT COUNT(*) FROM visit', epsilon=0.1)",
        "no table 'visit' is protected or registered as public in this",
    ),
    (
        "session.sql('SELECT AVG(agee) FROM visits', epsilon=0.1)",
        "there is no column 'agee' here; did you mean age? (line 1,",
    ),
    (
        "session.sql('SELECT COUNT(*) FROM visits WHERE sex = \"F\"', epsilon=0.1)",
        "there is no column 'F' here; double quotes are for names, and a",
    ),
    (
        "session.sql(\"SELECT COUNT(*) FROM visits WHERE sex = 'f'\", epsilon=0.1)",
        "sex has no level 'f', did you mean 'F'?; its levels are 'F', 'M'",
    ),
    (
        "session.sql('SELECT sex, COUNT(*) FROM visits', epsilon=0.1)",
        "sex is neither grouped by nor aggregated here: add it to GROUP",
    ),
    (
        "session.sql('SELECT MAX(sex) FROM visits', epsilon=0.1)",
        "MAX is of numbers, and this holds texts; CAST it to DOUBLE,",
    ),
    (
        "session.sql('SELECT DISTINCT sex FROM visits', epsilon=0.1)",
        "SELECT DISTINCT would show values of rows: write SELECT column,",
    ),
    (
        "session.sql('SELEC COUNT(*) FROM visits', epsilon=0.1)",
        "a question starts with SELECT, not SELEC (line 1, column 1)",
    ),
    ("session.sql('SELECT 1', epsilon=0.1)", "nothing here is private: no protected table is read, so ask it"),
    (
        "session.sql('INSERT INTO visits VALUES (1)', epsilon=0.1)",
        "a question starts with SELECT, not INSERT (line 1, column 1)",
    ),
    (
        "session.sql('SELECT COUNT(*) FROM visits; SELECT 1', epsilon=0.1)",
        "there are several statements; ask one at a time (line 1, column",
    ),
    ("session.sql('', epsilon=0.1)", "there is no statement: write SELECT COUNT(*) FROM"),
    (
        "session.sql('SELECT COUNT(*) FROM visits WHERE age > 3 && insured', epsilon=0.1)",
        "&& cannot be used here: it has no meaning in a question (line 1,",
    ),
    (
        "session.sql('SELECT COUNT(*) FROM visits WHERE age > :a', epsilon=0.1)",
        ":a has no value: give parameters={'a': ...}, or in a notebook a",
    ),
    (
        "session.sql('SELECT age FROM visits LIMIT 5', epsilon=0.1)",
        "rows cannot be shown; add COUNT(*), SUM(column) or AVG(column)",
    ),
    ("session.sql(df, epsilon=0.1)", "a SQL statement is a text, not a DataFrame"),
    (
        "session.sql('SELECT COUNT(*) FROM visits WHERE age > {a}', epsilon=0.1)",
        "{ cannot be used here: text templates are not supported; bind",
    ),
    (
        "session.sql('SELECT COUNT(*) FROM visits WHERE age > ?', epsilon=0.1)",
        "? cannot be used here: give the parameter a name: :limit (line",
    ),
    (
        'session.sql("SELECT COUNT(*) FROM visits WHERE sex = \'F", epsilon=0.1)',
        "a quote or a comment in this statement is opened and never closed",
    ),
    (
        "session.sql('SELECT MODE(sex) FROM visits', epsilon=0.1)",
        "MODE is not supported: it would show a value of somebody; write SELECT column, COUNT(*) AS n",
    ),
    (
        "session.sql('SELECT AVG(sex) FROM visits', epsilon=0.1)",
        "AVG is of numbers, and this holds texts; CAST it to DOUBLE,",
    ),
    (
        "session.sql('SELECT sex, COUNT(*) FROM visits WHERE COUNT(*) > 5 GROUP BY sex', epsilon=0.1)",
        "an aggregate stands in WHERE; write the condition as HAVING",
    ),
    ("session.sql('SELECT COUNT(*) FROM visits', eps=0.1)", "sql() takes no eps=; did you mean epsilon=?"),
    ("cell('-e 0.1 --error 5', 'SELECT COUNT(*) FROM visits')", "not allowed with argument -e/--epsilon"),
    ("cell('', 'SELECT COUNT(*) FROM visits')", "say what it may cost, -e 0.1, or how wrong it may be, --error 25"),
    ("cell('-e', 'SELECT COUNT(*) FROM visits')", "argument -e/--epsilon: expected one argument"),
    ("cell('-e -1', 'SELECT COUNT(*) FROM visits')", "epsilon"),
    ("cell('-e 0.1', 'SELECT * FROM visits')", "rows cannot be shown"),
    ("cell('-e 0.1', 'SELECT COUNT(*) FROM visits WHERE sex = :who')", ":who"),
    # A second hundred, written in a hurry.
    ("df.dp.count(where='age => 18', epsilon=0.1)", "where= is not understood: 'age => 18'; write >= for =>"),
    ("df.dp.count(where='age =< 18', epsilon=0.1)", "where= is not understood: 'age =< 18'; write <= for =<"),
    ("df.dp.count(where='age ≥ 18', epsilon=0.1)", "where= is not understood: 'age ≥ 18'; write >= for ≥"),
    ("df.dp.count(where='sex === \"F\"', epsilon=0.1)", "where= is not understood: 'sex === \"F\"'; write == for ==="),
    (
        "df.dp.count(where='“sex” == “F”', epsilon=0.1)",
        "where= is not understood: '“sex” == “F”'; write straight quotes, \" for “",
    ),
    (
        "df.dp.count(where='sex == ‘F’', epsilon=0.1)",
        "where= is not understood: 'sex == ‘F’'; write straight quotes, ' for ‘",
    ),
    (
        "df.dp.count(where='age = 18 and insured', epsilon=0.1)",
        "where= is not understood: 'age = 18 and insured'; write == to compare",
    ),
    ("df.dp.agg({'age': 'mean'}, epsilom=0.1)", "agg() takes no epsilom=; did you mean epsilon=?"),
    ("df.dp.mean('age', epsilon=0.1) + 1", "a query has no value before it is run: query.run().value"),
    ("1 - df.dp.mean('age', epsilon=0.1)", "a query has no value before it is run: query.run().value"),
    ("df.dp.mean('age', epsilon=0.1) > 3", "a query has no value before it is run: query.run().value"),
    ("dpn.Dates('2024')", "Dates() cannot be called so: missing a required argument: 'last'"),
    (
        "dpn.Dates(start='2024', end='2025')",
        "Dates() takes no start=; it takes first, last, by, outside, nullable, timezone, label",
    ),
    ("dpn.Times(by='hour', first='9')", "Times() takes no first=; it takes by, nullable, timezone, label"),
    (
        "session.remaining - 1",
        "this is an amount of two numbers, .epsilon and .delta: session.remaining.epsilon is one",
    ),
    (
        "session.remaining < 0.1",
        "this is an amount of two numbers, .epsilon and .delta: session.remaining.epsilon is one",
    ),
    ("0.5 * session.spent", "this is an amount of two numbers, .epsilon and .delta: session.remaining.epsilon is one"),
    (
        "release.loc['F']",
        "rows are numbered from 0 to 1: by a level of 'sex' they are release.set_index('sex').loc[...]",
    ),
    (
        "release.sort_values('nothing')",
        "this release has no such column; its columns are sex, value, std_error, lower, upper",
    ),
    (
        "release.set_index('nothing')",
        "this release has no such column; its columns are sex, value, std_error, lower, upper",
    ),
    ("release.groupby('sex')", "a release is not changed: release.to_frame() is a copy that has groupby"),
    ("df.dp.count(epsilon=[0.1])", "epsilon must be a number above 0, not [0.1]"),
    (
        "df.dp.count(epsilon=None)",
        "say how accurate the answer must be, or what it may cost: exactly one of epsilon=, error=,",
    ),
    ("df.dp.count(epsilon=0.1j)", "epsilon must be a number above 0, not 0.1j"),
    ("df.dp.count(epsilon=np.array([0.1]))", "epsilon must be a number above 0, not an array of shape (1,)"),
    ("df.dp.count(error=np.inf)", "error must be a finite number above 0, not inf"),
    ("df.dp.count(error=-5)", "error must be a finite number above 0, not -5"),
    ("df.dp.count(error=25, confidence=0)", "confidence must be a finite number above 0, not 0"),
    (
        "df.dp.mean(['age'], epsilon=0.1)",
        "['age'] is not declared in the domain of 'visits': one column is asked here, and several by",
    ),
    (
        "df.dp.mean(np.nan, epsilon=0.1)",
        "nan is not declared in the domain of 'visits'; declared are age, sex, insured, cost",
    ),
    (
        "df.dp.mean('🦄', epsilon=0.1)",
        "'🦄' is not declared in the domain of 'visits'; declared are age, sex, insured, cost",
    ),
    (
        "df.dp.mean('', epsilon=0.1)",
        "'' is not declared in the domain of 'visits'; declared are age, sex, insured, cost",
    ),
    (
        "df.dp.mean('pid', epsilon=0.1)",
        "'pid' is not declared in the domain of 'visits'; declared are age, sex, insured, cost",
    ),
    (
        "df.dp.groupby('pid').count(epsilon=0.1)",
        "'pid' is not declared in the domain of 'visits'; declared are age, sex, insured, cost",
    ),
    (
        "df.dp.count(where='pid == 3', epsilon=0.1)",
        "there is no declared column 'pid'; the domain declares age, sex, insured, cost",
    ),
    (
        "df.dp.groupby(pd.cut(df.age, 5)).count(epsilon=0.1)",
        "a Series holds values: write its name, 'age'; bands of it are groupby({'age': [0, 18, 65]})",
    ),
    (
        "df.dp.groupby('age // 10').count(epsilon=0.1)",
        "'age // 10' is not declared in the domain of 'visits'; declared are age, sex, insured, cost",
    ),
    (
        "df.dp.groupby({'sex': 'month'}).count(epsilon=0.1)",
        "'sex' is declared as Categories(['F', 'M']), which has no 'month': Dates are grouped by a span",
    ),
    (
        "df.dp.groupby({'age': 'decade'}).count(epsilon=0.1)",
        "age is grouped by bands, such as 10 or [0, 18, 65], and not by 'decade'",
    ),
    (
        "df.dp.groupby('sex').agg({'agee': 'mean'}, epsilon=0.1)",
        "'agee' is not declared in the domain of 'visits'; did you mean 'age'?",
    ),
    (
        "df.dp.groupby('sex').agg({'age': lambda s: s.max()}, epsilon=0.1)",
        'agg() takes the names of functions, not a function, such as agg({"age": ["mean", "median"],',
    ),
    ("df.dp.groupby('sex').agg('mean', epsilon=0.1)", 'mean is of a column: name it, as in agg({"age": "mean"})'),
    (
        "df.dp.groupby('sex').size()",
        "say how accurate the answer must be, or what it may cost: exactly one of epsilon=, error=,",
    ),
    (
        "df.dp.agg({'age': '150%'}, epsilon=0.1)",
        "agg() has no function '150%'; there are count, size, sum, mean, median, std, var, min, max,",
    ),
    (
        "df.dp.agg({'age': {'a': 'mean'}}, epsilon=0.1)",
        'agg() takes the names of functions, not {\'a\': \'mean\'}, such as agg({"age": ["mean", "median"],',
    ),
    (
        "df.dp.agg(lambda d: d.age.mean(), epsilon=0.1)",
        'agg() takes the names of functions, not a function, such as agg({"age": ["mean", "median"],',
    ),
    ("df.dp.agg({'age': 'mean'}, error=-1)", "error must be a finite number above 0, not -1"),
    (
        "df.dp.describe(['age', 'agee'], epsilon=0.1)",
        "'agee' is not declared in the domain of 'visits'; did you mean 'age'?",
    ),
    (
        "df.dp.describe(df[['age']], epsilon=0.1)",
        "a DataFrame holds values: write the name of a column; declared in 'visits' are age, sex,",
    ),
    ("df.dp.describe(0.1)", "0.1 is not declared in the domain of 'visits'; declared are age, sex, insured, cost"),
    (
        "df.dp.loc[df.age > 3, 'age'].mean()",
        "loc shows rows, and those of people are never shown. Ask of all rows, or of some:",
    ),
    (
        "df.dp[df.age > 65].count(epsilon=0.1)",
        'a condition in brackets chooses rows; here every verb has where=, a text: count(where="age >=',
    ),
    (
        "df.loc[df.age > 65].dp.mean('age', epsilon=0.1)",
        "this frame is not protected. A filtered or copied frame is a new one: ask the original and say",
    ),
    (
        "df.head().dp.mean('age', epsilon=0.1)",
        "this frame is not protected. A filtered or copied frame is a new one: ask the original and say",
    ),
    ("df.dp['agee']", "'agee' is not declared in the domain of 'visits'; did you mean 'age'?"),
    (
        "df.dp['age', 'sex'].mean(epsilon=0.1)",
        "what stands in brackets shows rows, and those of people are never shown. Ask of all rows, or",
    ),
    ("df.dp.mean('age', epsilon=0.1).frame", "a query has no frame before it is run: query.run().frame"),
    ("df.dp.mean('age', epsilon=0.1).plot()", "a query has no plot before it is run: query.run().plot"),
    (
        "df.dp.sum('cost', bounds=(0, float('inf')), epsilon=0.1)",
        "bounds of 'cost' must be finite and increasing, not (0, inf)",
    ),
    (
        "df.dp.sum('cost', clip=(0, 100), epsilon=0.1)",
        "sum() takes no clip=; it takes column, bounds, granularity, where, epsilon, error, variance,",
    ),
    (
        "df.dp.cdf('sex', epsilon=0.1).plan",
        "'sex' is declared as Categories(['F', 'M']): a cdf needs an order; declare it as Range, Bins",
    ),
    (
        "df.dp.answer(np.eye(3), epsilon=0.1)",
        'answer() takes a workload, such as dpn.marginals(2), dpn.ranges("age") or',
    ),
    (
        "df.dp.answer(dpn.marginals(9), epsilon=0.1)",
        "marginals of 9 attributes need at least as many, and there are 4; write k=4",
    ),
    (
        "df.dp.crosstab('age', 'sex', margins=True, epsilon=0.1)",
        "crosstab() takes no margins=; totals are answers of their own: histogram('age', epsilon=0.1),",
    ),
    (
        "df.dp.histogram('age', density=True, epsilon=0.1)",
        "histogram() takes no density=; it takes column, where, epsilon, error, variance, confidence,",
    ),
    (
        "df.dp.count(where='age == \"🦄\"', epsilon=0.1)",
        "age holds numbers, and '🦄' is a text; compare it with a number",
    ),
    (
        "df.dp.count(where=[('age', '>', 3)], epsilon=0.1)",
        "where= is a text such as \"age >= 65 and sex == 'F'\", not a list",
    ),
    (
        "df.dp.count(where='18 <= age <= ', epsilon=0.1)",
        "where= is not understood: '18 <= age <='; write it as for DataFrame.query, for example \"age >=",
    ),
    (
        "df.dp.count(where='age > age.mean()', epsilon=0.1)",
        ".mean() is not supported; the methods of a column are .isna(), .notna(), .between(a, b) and",
    ),
    (
        "df.dp.count(where='index > 3', epsilon=0.1)",
        "there is no declared column 'index'; the domain declares age, sex, insured, cost",
    ),
    ("df.dp.count(where=np.nan, epsilon=0.1)", "where= is a text such as \"age >= 65 and sex == 'F'\", not a float"),
    ("df.dp.count(where='age > 1e400', epsilon=0.1)", "age is compared with infinity; write a number"),
    (
        "dpn.Dates('2024-12-31', '2023-01-01')",
        "Dates from 2024-12-31 to 2023-01-01 are none: the first day comes after the last",
    ),
    (
        "dpn.Dates('01/02/2024', '31/12/2024')",
        "the first day of Dates: '01/02/2024' can be read as more than one date; write year, month and",
    ),
    (
        "dpn.Dates('2024-02-30', '2024-12-31')",
        "the first day of Dates: '2024-02-30' is on no calendar; write a date such as '2023-05-17'",
    ),
    (
        "dpn.Dates('2023', '2024', by='fortnight')",
        "by= is 'day' or 'week' or 'month' or 'quarter' or 'year', not 'fortnight'",
    ),
    ("dpn.Times('25:00')", "by= is 'hour', 'minute', or minutes that divide a day: '15 minutes'; not '25:00'"),
    ("dpn.Bins(edges=[0, 5, 3])", "edges of Bins increase, and 5 comes before 3"),
    (
        "dpn.Bins(0, 100, bins=10)",
        "Bins() takes no bins=; it takes low, high, width, count, edges, intervals, outside, nullable,",
    ),
    (
        "dpn.Range(0, float('nan'))",
        "the high end of a Range is a finite number, not nan; write a bound you know from outside the",
    ),
    ("dpn.Budget(epsilon=float('inf'))", "the budget's epsilon must be a finite number above 0, not inf"),
    (
        "protect(domain={'day': ['2024-01-01']})",
        "'day' is declared as Categories(['2024-01-01']), which is for text, but the column holds",
    ),
    (
        "protect(domain={'pid': dpn.Dates('2024', '2024')})",
        "'pid' is declared as Dates('2024-01-01', '2024-12-31', by='day'), which is for dates, but the",
    ),
    (
        "protect(domain={'day': dpn.Dates('2024', '2024', timezone='Mars')})",
        "there is no time zone 'Mars'; write one as 'Europe/Paris' or 'UTC'",
    ),
    (
        "protect(domain={'age': pd.Series([1, 2])})",
        "column 'age': this is a column of data; a domain says what you know without it: write its",
    ),
    (
        "protect(domain={'age': dpn.Range(0, 99)}, unit=['pid'])",
        'unit= is the column that says whose row it is, or dpn.Unit("patient", column="patient_id"), not a list. '
        "Of several columns make one, in the frame or in a view, such as clinic || '-' || number",
    ),
    ("protect(domain={'sex': ['F', 'F']})", "column 'sex': the level 'F' is listed twice"),
    (
        "session.sql('SELECT COUNT(*) FROM df', epsilon=0.1)",
        "no table 'df' is protected or registered as public in this session; there are visits (line 1,",
    ),
    (
        'session.sql("SELECT COUNT(*) FROM visits WHERE sex = F", epsilon=0.1)',
        "there is no column 'F' here; there are age, sex, insured, cost, pid, day, note (line 1, column",
    ),
    (
        "session.sql('SELECT sex COUNT(*) FROM visits GROUP BY sex', epsilon=0.1)",
        "the SQL cannot be read at 'COUNT' (line 1, column 12)",
    ),
    ("session.sql(['SELECT COUNT(*) FROM visits'], epsilon=0.1)", "a SQL statement is a text, not a list"),
    ("release[['sex', 'valu']]", "this release has no column 'valu'; it has sex, value, std_error, lower, upper"),
    ("int(release)", "this release has 2 answers: use .frame"),
    ("one + one", "releases are compared, by release - other and release / other, and not by +: work out + for"),
    ("cell('-e zero', 'SELECT COUNT(*) FROM visits')", "argument -e/--epsilon: a number above 0 such as 0.1, not zero"),
    (
        "cell('-e 0.1', 'SELECT COUNT(*) FROM visits WHERE age > :limit')",
        ":limit has no value: give parameters={'limit': ...}, or in a notebook a variable of this name",
    ),
]


@pytest.fixture(scope="module")
def names():
    """Return what the mistakes speak of: a protected frame, its session and its releases."""
    from IPython.core.interactiveshell import InteractiveShell

    number = np.arange(1000)
    df = pd.DataFrame(
        {
            "age": number % 100,
            "sex": np.where(number < 600, "F", "M"),
            "insured": number % 4 == 0,
            "cost": number % 50 * 10.0,
            "pid": number // 2,
            "day": pd.date_range("2024-01-01", periods=1000, freq="h"),
            "note": "x",
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        session = exact_session(dpn.Budget(epsilon=10.0))
        session.protect(df, "visits", domain=DOMAIN)

        def another():
            return exact_session(dpn.Budget(1.0))

        def protect(**options):
            return another().protect(df.copy(), "v", **options)

        def cell(line, sql):
            shell = InteractiveShell()
            dpn.load_ipython_extension(shell)
            shell.user_ns["session"] = session
            return shell.run_cell_magic("dpsql", f"-s session {line}", sql)

        found = dict(locals()) | {"dpn": dpn, "np": np, "pd": pd}
        found["release"] = df.dp.histogram("sex", epsilon=1).run()
        found["one"] = df.dp.count(epsilon=1).run()
        yield found
        session.close()


def test_there_are_many():
    assert len({code for code, _ in MISTAKES}) == len(MISTAKES) >= 150


@pytest.mark.parametrize(("code", "part"), MISTAKES, ids=[code for code, _ in MISTAKES])
def test_a_mistake_is_told_in_a_short_message(names, code, part):
    spent = names["session"].spent
    with pytest.raises((dpn.DPError, UsageError)) as caught:  # of a magic's first line, in IPython's words
        eval(code, dict(names))
    assert part in str(caught.value)
    assert len(str(caught.value)) < MOST
    assert caught.value.__cause__ is None
    assert names["session"].spent == spent  # nothing is charged for it


@pytest.mark.parametrize("ask", [lambda dp: dp.groupby("age").count(epsilon=0.1), lambda dp: dp.age.mean(epsilon=0.1)])
def test_where_nothing_is_declared_a_message_says_how_that_is_done(ask):
    """And what it says can be done: the table is protected again, with a domain."""
    rows = pd.DataFrame({"pid": range(100), "age": [30, 40] * 50})
    with dpn.Session(dpn.Budget(epsilon=1.0)) as session:
        session.protect(rows, "visits", unit="pid", max_rows=1)
        with pytest.raises((DomainError, UnknownVerb)) as caught:
            ask(rows.dp)
        assert "nothing is declared of 'visits' yet" in str(caught.value)
        assert "session.protect(..., domain={'age': dpn.Range(0, 99)})" in str(caught.value)
        with pytest.warns(dpn.LedgerWarning, match="'age' is new"):
            session.protect(rows, "visits", unit="pid", max_rows=1, domain={"age": dpn.Range(0, 99)})
        assert ask(rows.dp).plan.epsilon == pytest.approx(0.1)

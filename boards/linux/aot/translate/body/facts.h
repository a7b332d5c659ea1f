/* What is known of the values that C variables hold, from one operation to the next. */
#ifndef TRANSLATE_FACTS_H
#define TRANSLATE_FACTS_H

/* That the shape of a value is the one which a place remembers, that it is an array of a class; -1:
 * nothing. */
struct fact {
  char text[32]; /* of the C variable */
  int place, class;
};

#define FACTS_MAX 64

struct facts {
  struct fact known[FACTS_MAX];
  int count;
};

/* NULL: nothing is known of it. */
struct fact *fact_of(struct facts *facts, const char *text);

/* What is -1 stays as it was. */
void learn(struct facts *facts, const char *text, int place, int class);

/* What is known of one variable is so of another from here on. */
void learn_same(struct facts *facts, const char *text, const char *other);

/* Something may happen that gives objects other shapes. */
void forget_shapes(struct facts *facts);

/* Leaves there what is known both here and there. */
void meet(struct facts *there, struct facts *here);

#endif
